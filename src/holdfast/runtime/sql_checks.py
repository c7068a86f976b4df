"""`check_statements`: compares the columns of SQL patterns, as the database describes them, with their rows.

The type checker knows that a pattern returns `RequestRow`; only the database knows whether its statement
does. Each example is prepared there, without being run, and its columns are compared with the row's fields by
name, type and nullability.
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

from holdfast.core.errors import HoldfastError
from holdfast.model.operations import Operation
from holdfast.model.patterns import Pattern
from holdfast.model.sql import SqlOperation, SqlRead, SqlReturning, SqlRow
from holdfast.operations.sql.descriptions import ResultColumn
from holdfast.runtime.stores import Stores
from holdfast.runtime.system_provisioner import get_sql_engine

# The Python types that a column can be decoded into, by PostgreSQL type; the driver's own type comes first.
PYTHON_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
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
UNTYPED: Final = ("json", "jsonb", "void")
ZONELESS_TYPES: Final = ("timestamp", "time")


@dataclass(frozen=True)
class StatementMismatch:
    """One mismatch: pattern, column and reason. The column is empty if the whole statement is concerned."""

    pattern: str
    column: str
    message: str


async def check_statements(stores: Stores, patterns: Iterable[Pattern[..., Any]]) -> list[StatementMismatch]:
    """Return the mismatches of all SQL patterns; an empty list is good. Nothing is run."""
    found: list[StatementMismatch] = []
    for pattern in patterns:
        try:
            operation: Operation[Any] = pattern.build_example()
        except HoldfastError as error:
            found.append(StatementMismatch(pattern.id, "", f"its example failed: {error.message}"))
            continue
        for part in (operation,) if operation.parts is None else operation.parts:
            if isinstance(part, SqlOperation):
                found += [
                    StatementMismatch(pattern.id, *each) for each in await _check_operation(stores, part)
                ]
    return found


async def _check_operation(stores: Stores, operation: SqlOperation[Any]) -> list[tuple[str, str]]:
    """Return column and reason of each mismatch of one statement; an empty column for one that cannot be
    prepared.
    """
    try:
        columns = await get_sql_engine(stores).describe(operation.build_request(stores.environment))
    except HoldfastError as error:
        return [("", error.message)]
    return (
        list(_compare_columns(columns, operation.row))
        if isinstance(operation, SqlRead | SqlReturning)
        else []
    )


def _compare_columns(columns: Iterable[ResultColumn], row: type[SqlRow]) -> Iterator[tuple[str, str]]:
    """Yield column and reason of each mismatch: columns that are missing, extra or double, or of another
    type.
    """
    returned: dict[str, ResultColumn] = {}
    for column in columns:
        if column.name in returned:
            yield (
                column.name,
                f"the statement returns two columns of this name, but {row.__name__} has one: rename one "
                "with AS",
            )
        returned[column.name] = column
    for name, member in row.model_fields.items():
        column_or_none = returned.pop(_get_column_name(name, member), None)
        if column_or_none is not None:
            yield from (
                (column_or_none.name, reason) for reason in _find_reasons(column_or_none, member, row)
            )
        elif member.is_required():
            yield name, f"{row.__name__} requires it, but the statement does not return it: add the column"
    for name in returned:
        yield (
            name,
            f"the statement returns it, but {row.__name__} does not have it: remove it, or add it to the row",
        )


def _get_column_name(name: str, member: FieldInfo) -> str:
    """Return the field's alias, or its name."""
    return member.validation_alias if isinstance(member.validation_alias, str) else name


def _find_reasons(column: ResultColumn, member: FieldInfo, row: type[SqlRow]) -> Iterator[str]:
    """Yield why the column does not fit the field: nullable, without a time zone, or another type."""
    kinds = set(_unwrap_types(member.annotation))
    if column.is_nullable and type(None) not in kinds and not kinds & {Any, object}:
        yield f"the column may be null, but {row.__name__} requires it: add `| None`, or declare it NOT NULL"
    if column.type.removeprefix("_") in ZONELESS_TYPES:
        yield f"the column is a {column.type} without time zone: declare it with one"
    elif not _accepts(kinds, column.type):
        wanted = " or ".join(sorted(_format_type(kind) for kind in kinds if kind is not type(None)))
        yield f"the column is a {column.type}, not a {wanted}: correct the row, or cast in the statement"


def _accepts(kinds: set[Any], column_type: str) -> bool:
    """Return True if a field of these types accepts the column. Unknown column types are accepted."""
    if kinds & {Any, object} or column_type in UNTYPED:
        return True
    if column_type.startswith("_"):
        return bool(kinds & {list, tuple, set, frozenset})
    wanted = PYTHON_TYPES.get(column_type)
    return wanted is None or any(_is_type_of(kind, wanted) for kind in kinds)


def _is_type_of(kind: Any, wanted: tuple[type, ...]) -> bool:
    """Return True for the type or a subclass, but not for a bool as a number or a datetime as a date."""
    is_kind_of = isinstance(kind, type) and kind not in (bool, datetime) and issubclass(kind, wanted)
    return kind in wanted or is_kind_of


def _unwrap_types(annotation: Any) -> Iterator[Any]:
    """Yield the plain types behind an annotation: `Status | None` with a `StrEnum` is str and None."""
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        for each in get_args(annotation):
            yield from _unwrap_types(each)
    elif origin is Annotated:
        yield from _unwrap_types(get_args(annotation)[0])
    elif origin is Literal:
        yield from {type(value) for value in get_args(annotation)}
    elif isinstance(annotation, NewType):
        yield from _unwrap_types(annotation.__supertype__)
    elif isinstance(annotation, type) and issubclass(annotation, Enum):
        yield from {type(member.value) for member in annotation}
    else:
        yield annotation if origin is None else origin


def _format_type(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) else str(kind)
