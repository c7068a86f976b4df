"""Format declarations for people: types, key templates, pattern signatures, durations."""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterator
from datetime import timedelta
from enum import Enum
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from holdfast.model.entities.declaration import KeyDeclaration
from holdfast.model.entities.key_templates import Slot, Template
from holdfast.model.patterns import Pattern


def format_type(annotation: Any, *, with_none: bool = False) -> str:
    """Format a type without its validators: `list[str]`, `datetime`. `with_none` keeps the None of a
    union.
    """
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return format_type(arguments[0], with_none=with_none)
    if origin in (Union, types.UnionType):
        choices = [format_type(each) for each in arguments if each is not types.NoneType]
        return " | ".join([*choices, *(["None"] if with_none and types.NoneType in arguments else [])])
    if origin is Literal:
        return " | ".join(map(repr, arguments))
    if origin is not None:
        inside = ", ".join("…" if each is ... else format_type(each, with_none=True) for each in arguments)
        return f"{getattr(origin, '__name__', str(origin))}[{inside}]"
    return "None" if annotation is types.NoneType else str(getattr(annotation, "__name__", annotation))


def iter_named_types(annotation: Any) -> Iterator[type[Any]]:
    """Yield the enums and document classes inside an annotation, nested ones included."""
    for argument in get_args(annotation):
        if get_origin(annotation) is not Literal:
            yield from iter_named_types(argument)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        for info in annotation.model_fields.values():
            yield from iter_named_types(info.annotation)
    elif isinstance(annotation, type) and issubclass(annotation, Enum):
        yield annotation


def format_template(template: Template) -> str:
    """Format a key template: `EVENT#{created_at}#{id}`, or with a function `{day(created_at)}`."""
    return "".join(
        piece if isinstance(piece, str) else f"{{{_format_slot(piece)}}}" for piece in template.pieces
    )


def format_key(key: KeyDeclaration) -> str:
    """Format both attributes of a key with their templates."""
    parts = [f"`{key.partition_name}` = `{format_template(key.partition)}`"]
    if key.sort is not None and key.sort_name is not None:
        parts.append(f"`{key.sort_name}` = `{format_template(key.sort)}`")
    return ", ".join(parts)


def format_signature(pattern: Pattern[..., Any]) -> str:
    """Format a pattern's signature: `manifest(flight_id: FlightId) -> Query[Booking]`."""
    signature = inspect.signature(pattern.function)
    parameters = ", ".join(_format_parameter(each) for each in signature.parameters.values())
    returned = signature.return_annotation
    arrow = "" if returned is inspect.Signature.empty else f" -> {_format_annotation(returned)}"
    return f"{pattern.name}({parameters}){arrow}"


def format_duration(duration: timedelta) -> str:
    """Format a duration: `90 days`, `12:30:00`, or both."""
    days = f"{duration.days} days" if duration.days != 1 else "1 day"
    rest = duration - timedelta(days=duration.days)
    return f"{days} and {rest}" if duration.days and rest else days if not rest else str(rest)


def _format_slot(slot: Slot) -> str:
    """Format one variable part of a key template: `id`, `number:08` if padded, or `day(created_at)`."""
    name, function = slot.attribute.name, slot.function
    if function is None:
        return name
    width = getattr(function, "width", None)
    return f"{name}:0{width}" if width is not None else f"{_get_function_name(function)}({name})"


def _get_function_name(function: Any) -> str:
    """Return the name of a key function; an ellipsis for a lambda."""
    name = getattr(function, "__name__", type(function).__name__)
    return "…" if name == "<lambda>" else name


def _format_parameter(parameter: inspect.Parameter) -> str:
    empty = inspect.Parameter.empty
    name = str(parameter.replace(annotation=empty, default=empty))
    typed = "" if parameter.annotation is empty else f": {_format_annotation(parameter.annotation)}"
    given = "" if parameter.default is empty else f" = {parameter.default!r}"
    return f"{name}{typed}{given}"


def _format_annotation(annotation: Any) -> str:
    return annotation if isinstance(annotation, str) else format_type(annotation, with_none=True)
