"""Arguments and options from the signature of a function.

A parameter without a default is an argument, one with a default an option; one that can be given by its name alone is an
option in any case. `Annotated[str, "what it is"]` says what it is. Texts, whole numbers, numbers, truth values,
enumerations, literals, paths, UUIDs, days, times and lists of these are read as such; anything else as JSON, by its type.
"""

from __future__ import annotations

import inspect
import json
import types
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NewType, Union, get_args, get_origin, get_type_hints
from uuid import UUID

import typer
from pydantic import TypeAdapter, ValidationError

from holdfast.errors import DeclarationError
from holdfast.model.declaration import told

PROGRESS: Final = "progress"
AS_JSON: Final = "as_json"
# Read by the command line itself.
PLAIN: Final = (str, int, float, bool, Path, UUID)


def parameters_of(name: str, function: Callable[..., Any]) -> list[inspect.Parameter]:
    """What the command takes: all but the stores, which come first, and `progress`; and `--json`."""
    try:
        hints = get_type_hints(function, include_extras=True)
    except NameError as error:
        raise DeclarationError(
            f"The command {name!r} has a type that is not known when it runs ({error}): import it outside of "
            "`if TYPE_CHECKING`."
        ) from error
    declared = list(inspect.signature(function).parameters.values())
    if not declared:
        raise DeclarationError(
            f"The command {name!r} takes no stores: its function is called with them first."
        )
    made = [_parameter(each, hints.get(each.name, str)) for each in declared[1:] if each.name != PROGRESS]
    return [*made, _as_json()]


def wants_progress(function: Callable[..., Any]) -> bool:
    return PROGRESS in inspect.signature(function).parameters


def _parameter(declared: inspect.Parameter, hint: Any) -> inspect.Parameter:
    kind, about = _described(hint)
    has_default = declared.default is not inspect.Parameter.empty
    read, parser = _read_as(kind)
    info: Any
    if has_default or declared.kind is inspect.Parameter.KEYWORD_ONLY:
        info = typer.Option(_flag(declared, kind), help=about, parser=parser)
    else:
        info = typer.Argument(help=about, parser=parser, metavar=_metavar(declared.name, kind))
    return inspect.Parameter(
        declared.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=declared.default,
        annotation=Annotated[read, info],
    )


def _as_json() -> inspect.Parameter:
    option = typer.Option("--json", help="Answer in JSON.")
    return inspect.Parameter(
        AS_JSON, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Annotated[bool, option]
    )


def _described(hint: Any) -> tuple[Any, str | None]:
    """The type, and what `Annotated` says of it."""
    if get_origin(hint) is not Annotated:
        return hint, None
    kind, *notes = get_args(hint)
    return kind, next((each for each in notes if isinstance(each, str)), None)


def _flag(declared: inspect.Parameter, kind: Any) -> str:
    flag = f"--{declared.name.replace('_', '-')}"
    return f"{flag}/--no-{flag[2:]}" if kind is bool and declared.default is True else flag


def _metavar(name: str, kind: Any) -> str:
    several = "..." if get_origin(_bare(kind)) is list else ""
    return f"{name.upper()}{several}"


def _read_as(kind: Any) -> tuple[Any, Callable[[str], Any] | None]:
    """The type for the command line, and a parser where it has none of its own."""
    bare = _bare(kind)
    if get_origin(bare) is list:
        (element,) = get_args(bare)
        read, parser = _read_as(element)
        return list[read], parser  # type: ignore[valid-type]
    is_own = bare in PLAIN or get_origin(bare) is Literal
    if is_own or (isinstance(bare, type) and issubclass(bare, Enum)):
        return (bare | None if bare is not kind and _may_be_none(kind) else bare), None
    parser = {date: _day, datetime: _moment}.get(bare) or _by_its_type(bare)
    return Any, parser


def _bare(kind: Any) -> Any:
    """Without `| None`, and of a name for a type the type."""
    if isinstance(kind, NewType):
        return _bare(kind.__supertype__)
    if get_origin(kind) in (Union, types.UnionType):
        others = [each for each in get_args(kind) if each is not type(None)]
        return _bare(others[0]) if len(others) == 1 else kind
    return _described(kind)[0]


def _may_be_none(kind: Any) -> bool:
    return get_origin(kind) in (Union, types.UnionType) and type(None) in get_args(kind)


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no day: write it as 2026-02-04.") from None


def _moment(text: str) -> datetime:
    """Without a zone it is in UTC."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no time: write it as 2026-02-04T01:00:00Z.") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _by_its_type(kind: Any) -> Callable[[str], Any]:
    """JSON, checked by the type. What is no JSON is a text."""
    adapter: TypeAdapter[Any] = TypeAdapter(kind)

    def parsed(text: str) -> Any:
        try:
            value = json.loads(text, parse_float=Decimal)
        except ValueError:
            value = text
        try:
            return adapter.validate_python(value)
        except ValidationError as error:
            raise typer.BadParameter(f"{text!r} cannot be: {told(error)}.") from None

    return parsed
