"""Build the arguments and options of a system command from the function's signature.

A parameter without a default becomes an argument. A parameter with a default, or a keyword-only one, becomes
an option, and a boolean becomes a flag. `Annotated[str, "help text"]` provides the help. Typer parses
strings, integers, floats, booleans, enums, literals, paths, UUIDs, dates, times and lists of these; any other
type is parsed as JSON and validated.
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

from holdfast.core.errors import DeclarationError
from holdfast.model.entities.declaration import format_error

PROGRESS: Final = "progress"
AS_JSON: Final = "as_json"
# Typer parses these itself.
NATIVE_TYPES: Final = (str, int, float, bool, Path, UUID)


class JSON:
    """The type that help shows for a value that is parsed as JSON."""


def build_parameters(
    name: str, function: Callable[..., Any], *, needs_stores: bool = True
) -> list[inspect.Parameter]:
    """Return the command's parameters: the function's, without the stores (first) and `progress`, then
    `--json`.

    `name` is the command's name for error messages. Raise `DeclarationError` if the signature is unusable.
    """
    try:
        hints = get_type_hints(function, include_extras=True)
    except NameError as error:
        raise DeclarationError(
            f"The command {name!r} uses a type that is not available at run time ({error}): import it "
            "outside `if TYPE_CHECKING`."
        ) from error
    declared = list(inspect.signature(function).parameters.values())
    if needs_stores and not declared:
        raise DeclarationError(
            f"The command {name!r} has no parameter for the stores: add it as the first one."
        )
    typed = [each for each in declared[1 if needs_stores else 0 :] if each.name != PROGRESS]
    built = [_build_parameter(each, hints.get(each.name, str)) for each in typed]
    return [*built, _build_json_option()]


def has_progress_parameter(function: Callable[..., Any]) -> bool:
    """Return True if the function takes `progress`, a function that shows its progress."""
    return PROGRESS in inspect.signature(function).parameters


def _build_parameter(declared: inspect.Parameter, hint: Any) -> inspect.Parameter:
    """Return the parameter as Typer reads it: an option if it is boolean, keyword-only or has a default, else
    an argument.
    """
    kind, about = _split_annotated(hint)
    has_default = declared.default is not inspect.Parameter.empty
    parsed_type, parser = _choose_parser(kind)
    info: Any
    if has_default or declared.kind is inspect.Parameter.KEYWORD_ONLY or _unwrap_type(kind) is bool:
        info = typer.Option(_format_flag(declared, kind), help=about, parser=parser)
    else:
        info = typer.Argument(help=about, parser=parser, metavar=_format_metavar(declared.name, kind))
    return inspect.Parameter(
        declared.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=declared.default,
        annotation=Annotated[parsed_type, info],
    )


def _build_json_option() -> inspect.Parameter:
    option = typer.Option("--json", help="Print JSON.")
    return inspect.Parameter(
        AS_JSON, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Annotated[bool, option]
    )


def _split_annotated(hint: Any) -> tuple[Any, str | None]:
    """Return the type and the help text from `Annotated`, if any."""
    if get_origin(hint) is not Annotated:
        return hint, None
    kind, *notes = get_args(hint)
    return kind, next((each for each in notes if isinstance(each, str)), None)


def _format_flag(declared: inspect.Parameter, kind: Any) -> str:
    """Return the option's name: `--dry-run`, or `--wait/--no-wait` for a boolean that is not False by
    default.
    """
    flag = f"--{declared.name.replace('_', '-')}"
    is_switch = _unwrap_type(kind) is bool and declared.default is not False
    return f"{flag}/--no-{flag[2:]}" if is_switch else flag


def _format_metavar(name: str, kind: Any) -> str:
    """Return the argument's name in capitals, with `...` if it takes several values."""
    several = "..." if get_origin(_unwrap_type(kind)) is list else ""
    return f"{name.upper()}{several}"


def _choose_parser(kind: Any) -> tuple[Any, Callable[[str], Any] | None]:
    """Return the type for Typer, which its help shows, and a parser if Typer has none for it."""
    bare = _unwrap_type(kind)
    if get_origin(bare) is list:
        (element,) = get_args(bare)
        parsed_type, parser = _choose_parser(element)
        return list[parsed_type], parser  # type: ignore[valid-type]
    is_native = bare in NATIVE_TYPES or get_origin(bare) is Literal
    if is_native or (isinstance(bare, type) and issubclass(bare, Enum)):
        return (bare | None if bare is not kind and _is_optional(kind) else bare), None
    if bare is date:
        return date, _parse_date
    if bare is datetime:
        return datetime, _parse_datetime
    return float if bare is Decimal else JSON, _build_json_parser(bare)


def _unwrap_type(kind: Any) -> Any:
    """Return the type without `| None` and `Annotated`, and the supertype of a `NewType`."""
    if isinstance(kind, NewType):
        return _unwrap_type(kind.__supertype__)
    if get_origin(kind) in (Union, types.UnionType):
        others = [each for each in get_args(kind) if each is not type(None)]
        return _unwrap_type(others[0]) if len(others) == 1 else kind
    return _split_annotated(kind)[0]


def _is_optional(kind: Any) -> bool:
    return get_origin(kind) in (Union, types.UnionType) and type(None) in get_args(kind)


def _parse_date(text: str) -> date:
    """Parse an ISO 8601 date. Raise `BadParameter` if it is invalid."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"invalid date {text!r}: expected a date such as 2026-02-04.") from None


def _parse_datetime(text: str) -> datetime:
    """Parse an ISO 8601 time; without a time zone it is in UTC. Raise `BadParameter` if it is invalid."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(
            f"invalid time {text!r}: expected a time such as 2026-02-04T01:00:00Z."
        ) from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _build_json_parser(kind: Any) -> Callable[[str], Any]:
    """Return a parser of JSON that validates by the type. Text that is not JSON is taken as a string.

    The parser raises `BadParameter` for an invalid value.
    """
    adapter: TypeAdapter[Any] = TypeAdapter(kind)

    def parse(text: str) -> Any:
        try:
            value = json.loads(text, parse_float=Decimal)
        except ValueError:
            value = text
        try:
            return adapter.validate_python(value)
        except ValidationError as error:
            raise typer.BadParameter(f"invalid value {text!r}: {format_error(error)}.") from None

    return parse
