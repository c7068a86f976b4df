"""How declarations are written for people: types, key templates, the signature of a pattern."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterator
from datetime import timedelta
from enum import Enum
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from holdfast.model.declaration import KeyDeclaration
from holdfast.model.patterns import Pattern
from holdfast.model.templates import Slot, Template


def type_name(annotation: Any, *, with_none: bool = False) -> str:
    """A type without what only a validator cares for: `list[str]`, `datetime`. That None is allowed is said if asked."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return type_name(arguments[0], with_none=with_none)
    if origin in (Union, types.UnionType):
        choices = [type_name(each) for each in arguments if each is not types.NoneType]
        return " | ".join([*choices, *(["None"] if with_none and types.NoneType in arguments else [])])
    if origin is Literal:
        return " | ".join(map(repr, arguments))
    if origin is not None:
        inside = ", ".join("…" if each is ... else type_name(each, with_none=True) for each in arguments)
        return f"{getattr(origin, '__name__', str(origin))}[{inside}]"
    return "None" if annotation is types.NoneType else str(getattr(annotation, "__name__", annotation))


def named_types(annotation: Any) -> Iterator[type[Any]]:
    """The types inside an annotation that a reader may want to look up, those inside of them included."""
    for argument in get_args(annotation):
        if get_origin(annotation) is not Literal:
            yield from named_types(argument)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        for info in annotation.model_fields.values():
            yield from named_types(info.annotation)
    elif isinstance(annotation, type) and issubclass(annotation, Enum):
        yield annotation


def template_text(template: Template) -> str:
    """`EVENT#{created_at}#{id}`, with the function that an attribute is seen through: `{day(created_at)}`."""
    return "".join(piece if isinstance(piece, str) else f"{{{_slot(piece)}}}" for piece in template.pieces)


def key_text(key: KeyDeclaration) -> str:
    """Both attributes of a key with what they are made of."""
    parts = [f"`{key.partition_name}` = `{template_text(key.partition)}`"]
    if key.sort is not None and key.sort_name is not None:
        parts.append(f"`{key.sort_name}` = `{template_text(key.sort)}`")
    return ", ".join(parts)


def signature_text(pattern: Pattern[..., Any]) -> str:
    """The call as it is declared: `manifest(flight_id: FlightId) -> Query[Booking]`."""
    signature = inspect.signature(pattern.function)
    parameters = ", ".join(_parameter(each) for each in signature.parameters.values())
    returned = signature.return_annotation
    arrow = "" if returned is inspect.Signature.empty else f" -> {_annotation(returned)}"
    return f"{pattern.name}({parameters}){arrow}"


def duration_text(duration: timedelta) -> str:
    """`90 days`, `12:30:00`, or both."""
    days = f"{duration.days} days" if duration.days != 1 else "1 day"
    rest = duration - timedelta(days=duration.days)
    return f"{days} and {rest}" if duration.days and rest else days if not rest else str(rest)


def _slot(slot: Slot) -> str:
    name, function = slot.attribute.name, slot.function
    if function is None:
        return name
    width = getattr(function, "width", None)
    return f"{name}:0{width}" if width is not None else f"{_function_name(function)}({name})"


def _function_name(function: Any) -> str:
    name = getattr(function, "__name__", type(function).__name__)
    return "…" if name == "<lambda>" else name


def _parameter(parameter: inspect.Parameter) -> str:
    empty = inspect.Parameter.empty
    name = str(parameter.replace(annotation=empty, default=empty))
    typed = "" if parameter.annotation is empty else f": {_annotation(parameter.annotation)}"
    given = "" if parameter.default is empty else f" = {parameter.default!r}"
    return f"{name}{typed}{given}"


def _annotation(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else type_name(annotation, with_none=True)
