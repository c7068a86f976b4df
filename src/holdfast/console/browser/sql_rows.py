"""Rows of SQL tables, read-only: page by page in the order of the primary key.

Names come from the database's catalog and are quoted. A page begins after the key of the last, so a late page
costs what the first does. A table without a primary key shows its first rows only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any, Final, cast
from uuid import UUID

from holdfast.core.errors import NotFound
from holdfast.model.entities.cursors import decode_cursor, encode_cursor
from holdfast.model.sql import Schema
from holdfast.operations.sql import Statement
from holdfast.runtime.stores import Stores
from holdfast.stores.sql.port import Sql

__all__ = [
    "SqlColumn",
    "SqlPage",
    "SqlRowView",
    "SqlTable",
    "SqlTableDetails",
    "list_sql_tables",
    "load_rows",
]

PAGE_ROWS: Final = 50
# Names the parts of a row's key, next to its columns.
KEY_PREFIX: Final = "holdfast.key."

_KINDS: Final = {"r": "table", "p": "table", "v": "view", "m": "materialized view"}
_LIST_TABLES: Final = """
SELECT c.relname AS name, c.relkind::text AS kind, c.reltuples::bigint AS estimate,
       pg_total_relation_size(c.oid) AS bytes, coalesce(obj_description(c.oid, 'pg_class'), '') AS purpose
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = %(schema)s AND c.relkind IN ('r', 'p', 'v', 'm') AND NOT c.relispartition
ORDER BY c.relname
"""
_LIST_COLUMNS: Final = """
SELECT a.attname AS name, pg_catalog.format_type(a.atttypid, a.atttypmod) AS type, a.attnotnull AS required,
       (SELECT k.place FROM unnest(i.indkey) WITH ORDINALITY AS k(number, place)
        WHERE k.number = a.attnum) AS place
FROM pg_catalog.pg_attribute a
JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_catalog.pg_index i ON i.indrelid = c.oid AND i.indisprimary
WHERE n.nspname = %(schema)s AND c.relname = %(table)s AND a.attnum > 0 AND NOT a.attisdropped
  AND c.relkind IN ('r', 'p', 'v', 'm')
ORDER BY a.attnum
"""


@dataclass(frozen=True)
class SqlTable:
    """A table or view of a schema. `estimate` is PostgreSQL's own count; None before it has counted."""

    name: str
    kind: str
    estimate: int | None
    bytes: int
    purpose: str = ""


@dataclass(frozen=True)
class SqlColumn:
    """A column; `key_place` is its place in the primary key, from 1, or None."""

    name: str
    type: str
    is_required: bool
    key_place: int | None


@dataclass(frozen=True)
class SqlTableDetails:
    """The columns of a table."""

    schema: str
    name: str
    columns: Sequence[SqlColumn]

    @property
    def keys(self) -> list[SqlColumn]:
        """The columns of the primary key, in its order."""
        return sorted((each for each in self.columns if each.key_place), key=lambda each: each.key_place or 0)


@dataclass(frozen=True)
class SqlRowView:
    """A row: its values by column, and its key as texts; empty without a primary key."""

    values: Mapping[str, Any]
    key: dict[str, Any]


@dataclass(frozen=True)
class SqlPage:
    """Rows in the order of their key, and the cursor of the next page."""

    rows: Sequence[SqlRowView]
    next: str = ""


async def list_sql_tables(stores: Stores, schema: Schema) -> list[SqlTable]:
    """Return the tables and views of a schema."""
    rows = await _run(stores, schema.name, _LIST_TABLES, schema=schema.name)
    return [
        SqlTable(
            each["name"],
            _KINDS[each["kind"]],
            each["estimate"] if each["estimate"] >= 0 and each["kind"] != "v" else None,
            each["bytes"],
            each["purpose"],
        )
        for each in rows
    ]


async def describe_sql_table(stores: Stores, schema: Schema, name: str) -> SqlTableDetails:
    """Return a table's columns. Raise `NotFound` if the schema has no such table."""
    rows = await _run(stores, schema.name, _LIST_COLUMNS, schema=schema.name, table=name)
    if not rows:
        raise NotFound(f"The schema {schema.name} has no table {name!r} that this user may see.")
    return SqlTableDetails(
        schema.name,
        name,
        [SqlColumn(each["name"], each["type"], each["required"], each["place"]) for each in rows],
    )


async def load_rows(stores: Stores, table: SqlTableDetails, cursor: str = "") -> SqlPage:
    """Return one page of rows, from the cursor on."""
    scope = ("rows", table.schema, table.name)
    after = decode_cursor(cursor, scope) if cursor else None
    limit = PAGE_ROWS + 1 if table.keys else PAGE_ROWS
    rows = await _run(stores, table.schema, _build_page(table, after), limit=limit, **_number(after or {}))
    page = [_read_row(table, each) for each in rows[:PAGE_ROWS]]
    has_more = len(rows) > PAGE_ROWS and bool(table.keys)
    return SqlPage(page, encode_cursor(page[-1].key, scope) if has_more else "")


async def load_row(stores: Stores, table: SqlTableDetails, key: Mapping[str, Any]) -> SqlRowView:
    """Return one row by its primary key. Raise `NotFound` if there is none."""
    test = " AND ".join(f"{quote(each.name)} = {_cast(each, place)}" for place, each in enumerate(table.keys))
    if set(key) != {each.name for each in table.keys}:
        raise NotFound(f"The key of {table.name} has changed since this link was made: open the row again.")
    text = f"SELECT {_select(table)} FROM {_name(table)} WHERE {test}"
    rows = await _run(
        stores, table.schema, text, **_number({each.name: key[each.name] for each in table.keys})
    )
    if not rows:
        raise NotFound(f"This row of {table.name} does not exist any more.")
    return _read_row(table, rows[0])


def to_plain(value: Any, *, is_outer: bool = False) -> Any:
    """Return a column's value as a text, number, bool, time, list or map."""
    if isinstance(value, datetime) and is_outer:
        return value
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, UUID | timedelta):
        return str(value)
    if isinstance(value, Mapping):
        return {str(name): to_plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple | set):
        return [to_plain(each) for each in value]
    if isinstance(value, memoryview):
        return bytes(value)
    is_plain = value is None or isinstance(value, str | int | float | bytes) or hasattr(value, "is_finite")
    return value if is_plain else str(value)


def quote(name: str) -> str:
    """Return a name of the catalog as an identifier in a statement with parameters."""
    return '"' + name.replace('"', '""').replace("%", "%%") + '"'


# --- statements ---------------------------------------------------------------------------------------------


def _build_page(table: SqlTableDetails, after: Mapping[str, Any] | None) -> str:
    text = f"SELECT {_select(table)} FROM {_name(table)}"
    if not table.keys:
        return f"{text} LIMIT %(limit)s"
    names = ", ".join(quote(each.name) for each in table.keys)
    if after is not None:
        values = ", ".join(_cast(each, place) for place, each in enumerate(table.keys))
        text += f" WHERE ({names}) > ({values})"
    return f"{text} ORDER BY {names} LIMIT %(limit)s"


def _select(table: SqlTableDetails) -> str:
    """Return the columns, and those of the key as texts, from which they are read back exactly."""
    columns = [quote(each.name) for each in table.columns]
    keys = [
        f"{quote(each.name)}::text AS {quote(KEY_PREFIX + str(place))}"
        for place, each in enumerate(table.keys)
    ]
    return ", ".join([*columns, *keys])


def _name(table: SqlTableDetails) -> str:
    return f"{quote(table.schema)}.{quote(table.name)}"


def _cast(column: SqlColumn, place: int) -> str:
    return f"CAST(%(key_{place})s::text AS {column.type.replace('%', '%%')})"


def _number(key: Mapping[str, Any]) -> dict[str, Any]:
    return {f"key_{place}": value for place, value in enumerate(key.values())}


def _read_row(table: SqlTableDetails, row: Mapping[str, Any]) -> SqlRowView:
    return SqlRowView(
        {each.name: to_plain(row[each.name], is_outer=True) for each in table.columns},
        {each.name: row[KEY_PREFIX + str(place)] for place, each in enumerate(table.keys)},
    )


async def _run(
    stores: Stores, of_schema: str, text: str, /, **parameters: Any
) -> Sequence[Mapping[str, Any]]:
    sql = cast(Sql, stores.engines.get("sql"))
    return (await sql.run(Statement(text=text, parameters=parameters, schema=of_schema))).rows
