"""SQL typed to its end: what each statement of a system gives, on the real database, beside the rows it is read into.

The type checker knows that a pattern gives `Tracked`; that its statement does is for the database to say. Each example is
prepared there, without being run, and its columns are compared with the row's members: by name, by type, and whether
they may be empty. What does not fit is told in words.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Final, Literal, NewType, Union, get_args, get_origin
from uuid import UUID

from pydantic.fields import FieldInfo

from holdfast.errors import HoldfastError
from holdfast.model.operations import Operation
from holdfast.model.patterns import Pattern
from holdfast.model.sql import SqlOperation, SqlRead, SqlReturning, SqlRow
from holdfast.operations.sql.descriptions import ResultColumn
from holdfast.runtime.preparation import sql_engine
from holdfast.runtime.stores import Stores

# By PostgreSQL's name: what a member may be that the column is read into, as the driver gives it first.
TYPES: Final[Mapping[str, tuple[type, ...]]] = {
    **dict.fromkeys(("text", "varchar", "bpchar", "name", "unknown"), (str,)),
    **dict.fromkeys(("int2", "int4", "int8"), (int, float, Decimal)),
    **dict.fromkeys(("float4", "float8"), (float,)),
    "numeric": (Decimal, float),
    "bool": (bool,),
    "timestamptz": (datetime,),
    "date": (date,),
    "timetz": (time,),
    "interval": (timedelta,),
    "uuid": (UUID,),
    "bytea": (bytes,),
}
ANYTHING: Final = ("json", "jsonb", "void")
WITHOUT_ZONE: Final = ("timestamp", "time")


@dataclass(frozen=True)
class Misfit:
    """One thing that does not fit: which pattern, which column, and why. The column is empty where it is the whole."""

    pattern: str
    column: str
    message: str


async def check_statements(stores: Stores, patterns: Iterable[Pattern[..., Any]]) -> list[Misfit]:
    """What does not fit, of all patterns that are on SQL; nothing is run, and an empty list is good."""
    found: list[Misfit] = []
    for pattern in patterns:
        try:
            operation: Operation[Any] = pattern.example()
        except HoldfastError as error:
            found.append(Misfit(pattern.id, "", f"its example makes no operation: {error.message}"))
            continue
        for part in (operation,) if operation.parts is None else operation.parts:
            if isinstance(part, SqlOperation):
                found += [Misfit(pattern.id, *each) for each in await _misfits(stores, part)]
    return found


async def _misfits(stores: Stores, operation: SqlOperation[Any]) -> list[tuple[str, str]]:
    try:
        columns = await sql_engine(stores).describe(operation.request(stores.environment))
    except HoldfastError as error:
        return [("", error.message)]
    return list(_compared(columns, operation.row)) if isinstance(operation, SqlRead | SqlReturning) else []


def _compared(columns: Iterable[ResultColumn], row: type[SqlRow]) -> Iterator[tuple[str, str]]:
    given: dict[str, ResultColumn] = {}
    for column in columns:
        if column.name in given:
            yield (
                column.name,
                f"the statement gives two columns of this name, and {row.__name__} one: name one `AS` another",
            )
        given[column.name] = column
    for name, member in row.model_fields.items():
        column_or_none = given.pop(_alias(name, member), None)
        if column_or_none is not None:
            yield from ((column_or_none.name, told) for told in _reasons(column_or_none, member, row))
        elif member.is_required():
            yield name, f"{row.__name__} has it and the statement does not give it: add the column"
    for name in given:
        yield (
            name,
            f"the statement gives it and {row.__name__} does not have it: leave it out, or add it to the row",
        )


def _alias(name: str, member: FieldInfo) -> str:
    return member.validation_alias if isinstance(member.validation_alias, str) else name


def _reasons(column: ResultColumn, member: FieldInfo, row: type[SqlRow]) -> Iterator[str]:
    kinds = set(_kinds(member.annotation))
    if column.is_nullable and type(None) not in kinds and not kinds & {Any, object}:
        yield f"the column may be null and {row.__name__} needs a value: add `| None`, or declare it NOT NULL"
    if column.type.removeprefix("_") in WITHOUT_ZONE:
        yield f"the column is a {column.type}, which has no zone: declare it with one"
    elif not _takes(kinds, column.type):
        wanted = " or ".join(sorted(_named(kind) for kind in kinds if kind is not type(None)))
        yield f"the column is a {column.type}, which is no {wanted}: correct the row, or cast in the statement"


def _takes(kinds: set[Any], column_type: str) -> bool:
    """Whether a member of these kinds takes the column. Of a type that is not known here nothing is said."""
    if kinds & {Any, object} or column_type in ANYTHING:
        return True
    if column_type.startswith("_"):
        return bool(kinds & {list, tuple, set, frozenset})
    wanted = TYPES.get(column_type)
    return wanted is None or any(_is_of(kind, wanted) for kind in kinds)


def _is_of(kind: Any, wanted: tuple[type, ...]) -> bool:
    """Itself or a kind of it: but a bool is no number, and a moment no day, though Python has them so."""
    is_kind_of = isinstance(kind, type) and kind not in (bool, datetime) and issubclass(kind, wanted)
    return kind in wanted or is_kind_of


def _kinds(annotation: Any) -> Iterator[Any]:
    """The plain types behind an annotation: `Status | None` of a `StrEnum` is str and None."""
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        for each in get_args(annotation):
            yield from _kinds(each)
    elif origin is Annotated:
        yield from _kinds(get_args(annotation)[0])
    elif origin is Literal:
        yield from {type(value) for value in get_args(annotation)}
    elif isinstance(annotation, NewType):
        yield from _kinds(annotation.__supertype__)
    elif isinstance(annotation, type) and issubclass(annotation, Enum):
        yield from {type(member.value) for member in annotation}
    else:
        yield annotation if origin is None else origin


def _named(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)
