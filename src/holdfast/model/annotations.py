"""What the type of an attribute tells: whether it may be absent, which documents it holds, what lies inside it.

Types are looked at once, when an entity is declared or an expression is built; values are Pydantic's business.
"""

from __future__ import annotations

import types
from collections.abc import Iterable
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, Final, NewType, Union, get_args, get_origin

from pydantic import BaseModel, PlainSerializer
from pydantic.fields import FieldInfo

from holdfast.errors import DeclarationError
from holdfast.operations.tables.schema import KeyTag

# A bool is a subclass of int, and can be no key.
_TAGS: Final[tuple[tuple[type, KeyTag | None], ...]] = (
    (bool, None),
    (str, "S"),
    (int, "N"),
    (float, "N"),
    (Decimal, "N"),
    (bytes, "B"),
    (date, "S"),
)


def is_optional(annotation: Any) -> bool:
    """Whether None is among what an attribute may hold."""
    return any(choice in (None, type(None)) for choice in _choices(annotation))


def documents_in(annotation: Any, seen: set[Any] | None = None) -> Iterable[type[BaseModel]]:
    """Every document class that values of this type may hold; one may hold itself again."""
    seen = set() if seen is None else seen
    if isinstance(annotation, type) and issubclass(annotation, BaseModel) and annotation not in seen:
        seen.add(annotation)
        yield annotation
        for inner in annotation.model_fields.values():
            yield from documents_in(inner.annotation, seen)
    for argument in get_args(annotation):
        yield from documents_in(argument, seen)


def may_hold_times(annotation: Any) -> bool:
    """Whether a `datetime` may be in a value of this type, however deep."""
    kinds = [
        annotation,
        *(inner.annotation for each in documents_in(annotation) for inner in each.model_fields.values()),
    ]
    return any(_names_datetime(kind) for kind in kinds)


def _names_datetime(kind: Any) -> bool:
    while isinstance(kind, NewType):
        kind = kind.__supertype__
    if isinstance(kind, type) and issubclass(kind, datetime):
        return True
    return any(map(_names_datetime, get_args(kind)))


def is_datetime(annotation: Any) -> bool:
    """Whether values of this type are times and nothing else, save absent."""
    choices = [choice for choice in _choices(annotation) if choice not in (None, type(None))]
    return bool(choices) and all(map(_names_datetime, choices))


def annotated(field: FieldInfo) -> Any:
    """The type of a field, with what stands beside it in `Annotated`."""
    return Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation


def key_tag(annotation: Any) -> KeyTag | None:
    """What a value of this type would be as a key: text, number or binary; None where that cannot be told."""
    tags = {_tag(choice) for choice in _choices(annotation) if choice not in (None, type(None))}
    return tags.pop() if len(tags) == 1 and not _is_serialised(annotation) else None


def element_type(kind: Any) -> Any:
    """The type of the elements of a list, set or map of one kind of value; Any where there is no one type."""
    for choice in _choices(kind):
        arguments = get_args(choice)
        if get_origin(choice) in (list, set, frozenset, dict) and arguments:
            return arguments[-1]
        if get_origin(choice) is tuple and arguments[-1] is Ellipsis:
            return arguments[0]
    return Any


def member_type(kind: Any, step: str | int) -> tuple[Any, str | int]:
    """The type that a step leads to, and the step as it is stored."""
    for choice in _choices(kind):
        if isinstance(choice, type) and issubclass(choice, BaseModel) and isinstance(step, str):
            if step not in choice.model_fields:
                raise DeclarationError(
                    f"{choice.__name__} has no member {step!r}: {listed(choice.model_fields)} are."
                )
            member = choice.model_fields[step]
            return annotated(member), member.serialization_alias or member.alias or step
    return element_type(kind), step


def listed(names: Iterable[str]) -> str:
    *rest, last = names
    return f"{', '.join(rest)} and {last}" if rest else last


def _choices(annotation: Any) -> Iterable[Any]:
    """The types that a value may have, without what stands beside them in `Annotated`."""
    if get_origin(annotation) is Annotated:
        yield from _choices(get_args(annotation)[0])
    elif get_origin(annotation) in (Union, types.UnionType):
        for choice in get_args(annotation):
            yield from _choices(choice)
    else:
        yield annotation


def _tag(kind: Any) -> KeyTag | None:
    while isinstance(kind, NewType):
        kind = kind.__supertype__
    kind = next(iter(_choices(kind)))
    for base, tag in _TAGS:
        if isinstance(kind, type) and issubclass(kind, base):
            return tag
    return None


def _is_serialised(annotation: Any) -> bool:
    """Whether something beside the type says how it is kept."""
    inner = any(map(_is_serialised, get_args(annotation))) if get_origin(annotation) else False
    return inner or any(True for _ in _serialisers(annotation))


def serialisers(annotation: Any) -> Iterable[Any]:
    """The functions beside a type that say how it is kept, however deep."""
    yield from _serialisers(annotation)
    for argument in get_args(annotation) if get_origin(annotation) else ():
        yield from serialisers(argument)


def _serialisers(annotation: Any) -> Iterable[Any]:
    for each in getattr(annotation, "__metadata__", ()):
        if isinstance(each, PlainSerializer):
            yield each.func
