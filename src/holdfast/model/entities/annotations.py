"""Inspection of attribute types: optional or not, documents inside, key type, element type, serializers.

Types are inspected once, when an entity is declared or an expression is built; Pydantic validates the values.
"""

from __future__ import annotations

import types
from collections.abc import Iterable
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any, Final, NewType, Union, get_args, get_origin

from pydantic import BaseModel, PlainSerializer
from pydantic.fields import FieldInfo

from holdfast.core.errors import DeclarationError
from holdfast.operations.tables.schema import KeyTag

# A bool is a subclass of int, but DynamoDB has no boolean keys.
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
    """Return True if the annotation allows None."""
    return any(choice in (None, type(None)) for choice in _split_union(annotation))


def find_documents(annotation: Any, seen: set[Any] | None = None) -> Iterable[type[BaseModel]]:
    """Yield every document class that values of this type may hold. A document may contain itself."""
    seen = set() if seen is None else seen
    if isinstance(annotation, type) and issubclass(annotation, BaseModel) and annotation not in seen:
        seen.add(annotation)
        yield annotation
        for inner in annotation.model_fields.values():
            yield from find_documents(inner.annotation, seen)
    for argument in get_args(annotation):
        yield from find_documents(argument, seen)


def may_contain_datetime(annotation: Any) -> bool:
    """Return True if a value of this type may contain a `datetime` at any depth."""
    kinds = [
        annotation,
        *(inner.annotation for each in find_documents(annotation) for inner in each.model_fields.values()),
    ]
    return any(_mentions_datetime(kind) for kind in kinds)


def _mentions_datetime(kind: Any) -> bool:
    """Return True if the type, or one of its arguments, is a datetime."""
    while isinstance(kind, NewType):
        kind = kind.__supertype__
    if isinstance(kind, type) and issubclass(kind, datetime):
        return True
    return any(map(_mentions_datetime, get_args(kind)))


def is_datetime(annotation: Any) -> bool:
    """Return True if every value of this type is a datetime (or absent)."""
    choices = [choice for choice in _split_union(annotation) if choice not in (None, type(None))]
    return bool(choices) and all(map(_mentions_datetime, choices))


def get_annotated_type(field: FieldInfo) -> Any:
    """Return the type of a field with its `Annotated` metadata."""
    return Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation


def get_key_tag(annotation: Any) -> KeyTag | None:
    """Return the key type of such a value, S, N or B; None if the annotation does not determine it."""
    tags = {_get_tag(choice) for choice in _split_union(annotation) if choice not in (None, type(None))}
    return tags.pop() if len(tags) == 1 and not _has_serialiser(annotation) else None


def get_element_type(kind: Any) -> Any:
    """Return the element type of a list, set or map; Any if the elements have no single type."""
    for choice in _split_union(kind):
        arguments = get_args(choice)
        if get_origin(choice) in (list, set, frozenset, dict) and arguments:
            return arguments[-1]
        if get_origin(choice) is tuple and arguments[-1] is Ellipsis:
            return arguments[0]
    return Any


def resolve_member(kind: Any, step: str | int) -> tuple[Any, str | int]:
    """Return the type that a path step leads to, and the step under its stored name.

    `step` is a member's name or an index. Raise `DeclarationError` if the document has no such member.
    """
    for choice in _split_union(kind):
        if isinstance(choice, type) and issubclass(choice, BaseModel) and isinstance(step, str):
            if step not in choice.model_fields:
                raise DeclarationError(
                    f"{choice.__name__} has no member {step!r}: expected {join_words(choice.model_fields)}."
                )
            member = choice.model_fields[step]
            return get_annotated_type(member), member.serialization_alias or member.alias or step
    return get_element_type(kind), step


def join_words(names: Iterable[str]) -> str:
    """Return the names as one phrase: "a, b and c"."""
    *rest, last = names
    return f"{', '.join(rest)} and {last}" if rest else last


def _split_union(annotation: Any) -> Iterable[Any]:
    """Yield the types of a union, without their `Annotated` metadata."""
    if get_origin(annotation) is Annotated:
        yield from _split_union(get_args(annotation)[0])
    elif get_origin(annotation) in (Union, types.UnionType):
        for choice in get_args(annotation):
            yield from _split_union(choice)
    else:
        yield annotation


def _get_tag(kind: Any) -> KeyTag | None:
    """Return the key type of a class, S, N or B; None if it has none."""
    while isinstance(kind, NewType):
        kind = kind.__supertype__
    kind = next(iter(_split_union(kind)))
    for base, tag in _TAGS:
        if isinstance(kind, type) and issubclass(kind, base):
            return tag
    return None


def _has_serialiser(annotation: Any) -> bool:
    """Return True if `Annotated` metadata says how the value is stored."""
    inner = any(map(_has_serialiser, get_args(annotation))) if get_origin(annotation) else False
    return inner or any(True for _ in _get_serialisers(annotation))


def find_serialisers(annotation: Any) -> Iterable[Any]:
    """Yield the serializer functions in `Annotated` metadata, at any depth."""
    yield from _get_serialisers(annotation)
    for argument in get_args(annotation) if get_origin(annotation) else ():
        yield from find_serialisers(argument)


def _get_serialisers(annotation: Any) -> Iterable[Any]:
    """Yield the serializer functions in the annotation's own metadata."""
    for each in getattr(annotation, "__metadata__", ()):
        if isinstance(each, PlainSerializer):
            yield each.func
