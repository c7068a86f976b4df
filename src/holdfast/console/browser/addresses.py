"""Addresses of the data browser's pages. A key and a cursor are opaque tokens, so that any key makes a link.

A name of a table has no colon, so `sql:SCHEMA` and `bucket:NAME` are no tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, urlencode

from holdfast.core.errors import InvalidRequest
from holdfast.model.entities.cursors import decode_cursor, encode_cursor
from holdfast.operations.values import Item

__all__ = [
    "build_bucket_url",
    "build_item_url",
    "build_object_url",
    "build_row_url",
    "build_sql_url",
    "build_table_url",
    "decode_key",
    "encode_key",
]


def build_table_url(system: str, table: str, **query: Any) -> str:
    """Return the address of a table's items; `query` are fields of its form."""
    return _build(f"/data/{quote(system)}/{quote(table)}", query)


def build_item_url(system: str, table: str, key: Mapping[str, Any], part: str = "", **query: Any) -> str:
    """Return the address of an item, or of a `part` of its pages such as `history`."""
    path = f"/data/{quote(system)}/{quote(table)}/item{f'/{part}' if part else ''}"
    return _build(path, {"key": encode_key(table, key), **query})


def build_sql_url(system: str, schema: str, table: str = "", **query: Any) -> str:
    """Return the address of a schema's tables, or of the rows of one."""
    return _build(f"/data/{quote(system)}/sql:{quote(schema)}{f'/{quote(table)}' if table else ''}", query)


def build_row_url(system: str, schema: str, table: str, key: Item, **query: Any) -> str:
    """Return the address of a row."""
    path = f"/data/{quote(system)}/sql:{quote(schema)}/{quote(table)}/row"
    return _build(path, {"key": encode_key(f"{schema}.{table}", key), **query})


def build_bucket_url(system: str, bucket: str, **query: Any) -> str:
    """Return the address of a bucket's objects."""
    return _build(f"/data/{quote(system)}/bucket:{quote(bucket)}", query)


def build_object_url(system: str, bucket: str, key: str, **query: Any) -> str:
    """Return the address of an object."""
    return _build(f"/data/{quote(system)}/bucket:{quote(bucket)}/object", {"key": key, **query})


def encode_key(table: str, key: Mapping[str, Any]) -> str:
    """Return a key as a token that only this table accepts."""
    return encode_cursor(dict(key), ("key", table))


def decode_key(table: str, token: str) -> Item:
    """Return the key of a token. Raise `InvalidRequest` if it is not one of this table."""
    try:
        return decode_cursor(token, ("key", table))
    except InvalidRequest as error:
        raise InvalidRequest(
            f"Invalid key in the address: it does not name an item of {table}. Open the item from its table."
        ) from error


def _build(path: str, query: dict[str, Any]) -> str:
    given = {name: value for name, value in query.items() if value not in (None, "", [])}
    return path + (f"?{urlencode(given, doseq=True)}" if given else "")
