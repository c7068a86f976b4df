"""Descriptions of a statement's result columns, and the server's version.

The server prepares a statement with the types of its parameters and runs nothing. The names and types of the
columns are the server's; whether a column may be null comes from the catalog entry of the table's column, if
it has one.
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
from holdfast.stores.sql.postgres.errors import map_error

_PLACEHOLDER: Final = re.compile(r"%\((\w+)\)s|%%")
_STATEMENT_NAME: Final = b"holdfast_described"
_ENUM_KIND: Final = "e"


def describe(
    connect: Callable[[], psycopg.Connection[Any]], statement: Statement
) -> tuple[ResultColumn, ...]:
    """Return the columns of the rows that a statement would return; none for a write that returns nothing.

    Opens and closes a connection of its own with `connect`. Raise `DeclarationError` for invalid SQL.
    """
    try:
        with closing(connect()) as connection:
            connection.autocommit, connection.row_factory = True, tuple_row
            return _build_columns(connection, _prepare(connection, statement))
    except psycopg.Error as error:
        raise map_error(error, statement) from None


def get_server_version(connect: Callable[[], psycopg.Connection[Any]]) -> str:
    """Connect, run a trivial query and return the server's version. Raise a `HoldfastError` if that fails."""
    try:
        with closing(connect()) as connection:
            connection.execute("SELECT 1")
            return str(connection.info.parameter_status("server_version"))
    except psycopg.Error as error:
        raise map_error(error) from None


def _prepare(connection: psycopg.Connection[Any], statement: Statement) -> PGresult:
    """Prepare the statement, with numbered instead of named placeholders, and return its description."""
    numbers: dict[str, int] = {}

    def number(found: re.Match[str]) -> str:
        if found[1] is None:
            return "%"
        return f"${numbers.setdefault(found[1], len(numbers) + 1)}"

    text = _PLACEHOLDER.sub(number, statement.text)
    types = [_find_type_oid(connection, statement.parameters[name]) for name in numbers]
    for result in (
        connection.pgconn.prepare(_STATEMENT_NAME, text.encode(), types),
        connection.pgconn.describe_prepared(_STATEMENT_NAME),
    ):
        if result.status != ExecStatus.COMMAND_OK:
            raise _build_refusal(result, statement)
    return result


def _find_type_oid(connection: psycopg.Connection[Any], value: Any) -> int:
    """Return the oid of the type that the driver would send the value as; 0, which fits any type, for
    None.
    """
    return 0 if value is None else int(Transformer(connection).get_dumper(value, PyFormat.AUTO).oid)


def _build_refusal(result: PGresult, statement: Statement) -> Exception:
    """Return `DeclarationError` for invalid SQL (SQLSTATE class 42), otherwise `RequestRefused`."""
    state = (result.error_field(DiagnosticField.SQLSTATE) or b"").decode()
    message = (result.error_field(DiagnosticField.MESSAGE_PRIMARY) or b"").decode()
    subject = statement.pattern or "A statement"
    if state.startswith("42"):
        return DeclarationError(f"Invalid SQL in {subject}: {message}.")
    return RequestRefused(state, f"PostgreSQL refuses {subject}: {message}.")


def _build_columns(connection: psycopg.Connection[Any], result: PGresult) -> tuple[ResultColumn, ...]:
    """Return name, type and nullability of each column; nullability is None if it is unknown."""
    positions = range(result.nfields)
    types = _read_type_names(connection, [result.ftype(position) for position in positions])
    is_nullable = _read_nullables(connection, [result.ftable(position) for position in positions])
    return tuple(
        ResultColumn(
            name=(result.fname(position) or b"").decode(),
            type=types[result.ftype(position)],
            is_nullable=is_nullable.get((result.ftable(position), result.ftablecol(position))),
        )
        for position in positions
    )


def _read_type_names(connection: psycopg.Connection[Any], oids: list[int]) -> Mapping[int, str]:
    """Return the names of types by oid. An enum type reads as text."""
    query = (
        "SELECT oid::int8, typname::text, typtype::text FROM pg_catalog.pg_type "
        "WHERE oid::int8 = ANY(%s::int8[])"
    )
    rows = connection.execute(query, ["{" + ",".join(map(str, oids)) + "}"])
    return {oid: "text" if kind == _ENUM_KIND else name for oid, name, kind in rows}


def _read_nullables(connection: psycopg.Connection[Any], tables: list[int]) -> Mapping[tuple[int, int], bool]:
    """Return whether a column may be null, by table and position. Columns of a view are unknown."""
    query = (
        "SELECT a.attrelid::int8, a.attnum::int8, NOT a.attnotnull FROM pg_catalog.pg_attribute a "
        "JOIN pg_catalog.pg_class c ON c.oid = a.attrelid AND c.relkind IN ('r', 'p') "
        "WHERE a.attrelid::int8 = ANY(%s::int8[]) AND a.attnum > 0"
    )
    rows = connection.execute(query, ["{" + ",".join(map(str, tables)) + "}"])
    return {(table, position): is_nullable for table, position, is_nullable in rows}
