"""Descriptions of the server, and of a statement: the server prepares it, with the types of its parameters.

Nothing is run. The names and types of the columns are the server's; whether a column may be null comes from
the catalog entry of the table's column, if it has one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any, Final

import psycopg
from psycopg.adapt import PyFormat, Transformer
from psycopg.pq import DiagnosticField, ExecStatus
from psycopg.pq.abc import PGresult
from psycopg.rows import tuple_row

from holdfast.core.errors import DeclarationError, RequestRefused
from holdfast.operations.sql import Statement
from holdfast.operations.sql.descriptions import ResultColumn
from holdfast.stores.sql.postgres.failures import mapped

_PLACEHOLDER: Final = re.compile(r"%\((\w+)\)s|%%")
_NAME: Final = b"holdfast_described"
_ENUM: Final = "e"


def describe(
    connect: Callable[[], psycopg.Connection[Any]], statement: Statement
) -> tuple[ResultColumn, ...]:
    """Return the columns of the rows that a statement returns; none for a write that returns nothing."""
    try:
        with closing(connect()) as connection:
            connection.autocommit, connection.row_factory = True, tuple_row
            return _columns(connection, _prepared(connection, statement))
    except psycopg.Error as error:
        raise mapped(error, statement) from None


def server_version(connect: Callable[[], psycopg.Connection[Any]]) -> str:
    """Return the server's version if it answers a trivial query."""
    try:
        with closing(connect()) as connection:
            connection.execute("SELECT 1")
            return str(connection.info.parameter_status("server_version"))
    except psycopg.Error as error:
        raise mapped(error) from None


def _prepared(connection: psycopg.Connection[Any], statement: Statement) -> PGresult:
    numbers: dict[str, int] = {}

    def numbered(found: re.Match[str]) -> str:
        if found[1] is None:
            return "%"
        return f"${numbers.setdefault(found[1], len(numbers) + 1)}"

    text = _PLACEHOLDER.sub(numbered, statement.text)
    types = [_type_of(connection, statement.parameters[name]) for name in numbers]
    for result in (
        connection.pgconn.prepare(_NAME, text.encode(), types),
        connection.pgconn.describe_prepared(_NAME),
    ):
        if result.status != ExecStatus.COMMAND_OK:
            raise _refusal(result, statement)
    return result


def _type_of(connection: psycopg.Connection[Any], value: Any) -> int:
    """Return the type that the driver would send the value as; None may have any type."""
    return 0 if value is None else int(Transformer(connection).get_dumper(value, PyFormat.AUTO).oid)


def _refusal(result: PGresult, statement: Statement) -> Exception:
    state = (result.error_field(DiagnosticField.SQLSTATE) or b"").decode()
    told = (result.error_field(DiagnosticField.MESSAGE_PRIMARY) or b"").decode()
    subject = statement.pattern or "A statement"
    if state.startswith("42"):
        return DeclarationError(f"PostgreSQL cannot run the text of {subject}: {told}.")
    return RequestRefused(state, f"PostgreSQL refuses {subject}: {told}.")


def _columns(connection: psycopg.Connection[Any], result: PGresult) -> tuple[ResultColumn, ...]:
    places = range(result.nfields)
    types = _type_names(connection, [result.ftype(place) for place in places])
    is_nullable = _nullables(connection, [result.ftable(place) for place in places])
    return tuple(
        ResultColumn(
            name=(result.fname(place) or b"").decode(),
            type=types[result.ftype(place)],
            is_nullable=is_nullable.get((result.ftable(place), result.ftablecol(place))),
        )
        for place in places
    )


def _type_names(connection: psycopg.Connection[Any], oids: list[int]) -> Mapping[int, str]:
    """Return the names of types by oid. An enum type reads as text."""
    asked = "SELECT oid::int8, typname::text, typtype::text FROM pg_catalog.pg_type WHERE oid::int8 = ANY(%s::int8[])"
    rows = connection.execute(asked, ["{" + ",".join(map(str, oids)) + "}"])
    return {oid: "text" if kind == _ENUM else name for oid, name, kind in rows}


def _nullables(connection: psycopg.Connection[Any], tables: list[int]) -> Mapping[tuple[int, int], bool]:
    """Return whether a column may be null, by table and position. Columns of a view are unknown."""
    asked = (
        "SELECT a.attrelid::int8, a.attnum::int8, NOT a.attnotnull FROM pg_catalog.pg_attribute a "
        "JOIN pg_catalog.pg_class c ON c.oid = a.attrelid AND c.relkind IN ('r', 'p') "
        "WHERE a.attrelid::int8 = ANY(%s::int8[]) AND a.attnum > 0"
    )
    rows = connection.execute(asked, ["{" + ",".join(map(str, tables)) + "}"])
    return {(table, place): is_nullable for table, place, is_nullable in rows}
