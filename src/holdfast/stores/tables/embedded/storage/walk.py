"""Reads the rows of a span with one SELECT, row by row as they are needed.

Each item is compared with the checksum of its row, and each row of an index with its item: pages that are
still in the write-ahead log have no checksum that SQLite would compare. A segmented scan walks only the keys,
which are all in one index of the file, and fetches only the items of its segment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final
from zlib import crc32

import apsw

from holdfast.operations.values import Item
from holdfast.stores.sqlite.checksums import is_checksum_error
from holdfast.stores.tables.embedded.plan.span import Span
from holdfast.stores.tables.embedded.storage import codec
from holdfast.stores.tables.embedded.storage.damage import (
    report_damaged_index,
    report_damaged_item,
    report_damaged_rows,
)
from holdfast.stores.tables.embedded.table import Index

NO_ITEM: Final = (None, None, None)
SpanRow = tuple[Item, int, int]
"""A row of a page: the item, its size, and the size of the index's copy of it."""


def select_rows(connection: apsw.Connection, span: Span, limit: int | None) -> Iterator[SpanRow]:
    """Iterate over the rows of a span, in its order, at most `limit`.

    Raise `DataDamaged` at the first that is not right. The limit is ignored for a segment of a scan.
    """
    number, index = span.table.number, span.index
    if span.segment is not None:
        return _verify_rows(span, _select_by_key(connection, connection, span))
    if index is None:
        sql, bindings = _build_select(span, f"SELECT item, size, sum, pk, sk FROM items_{number}")
    else:
        # SQLite walks the left table of a LEFT JOIN first: the index. A row without an item is damage.
        sql, bindings = _build_select(
            span,
            "SELECT i.item, i.size, i.sum, x.pk, x.sk, x.size, x.ipk, x.isk"
            f" FROM index_{number}_{index.slot} x LEFT JOIN items_{number} i ON i.id = x.id",
        )
    if limit is not None:
        sql += " LIMIT ?"
        bindings.append(limit)
    return _verify_rows(span, connection.execute(sql, bindings))


def select_rows_alone(
    connection: apsw.Connection, unverified: apsw.Connection, span: Span
) -> Iterator[SpanRow]:
    """Iterate over the rows of a span in a file with damaged pages, and raise `DataDamaged` at the first that
    is not right.

    The keys come from verified pages, so that none is missing. Each item is read by its row, without its page
    being verified, and compared with its own checksum.
    """
    try:
        yield from _verify_rows(span, _select_by_key(connection, unverified, span))
    except apsw.IOError as error:
        if not is_checksum_error(error):
            raise
        index = span.index
        raise report_damaged_rows(span.table, None if index is None else index.name) from error


def _select_by_key(keys: apsw.Connection, items: apsw.Connection, span: Span) -> Iterator[Any]:
    """Iterate over the rows of a span, or of its segment, by one connection for keys and one for items."""
    number, index, segment = span.table.number, span.index, span.segment
    if index is None:
        select = f"SELECT id, pk, pk, sk FROM items_{number} INDEXED BY items_{number}_key"
    else:
        select = f"SELECT id, ipk, pk, sk, x.size, ipk, isk FROM index_{number}_{index.slot} x"
    sql, bindings = _build_select(span, select)
    fetch = f"SELECT item, size, sum FROM items_{number} WHERE id = ?"
    for row, partition, *key in keys.execute(sql, bindings):
        if segment is None or segment.contains(partition):
            yield (*(items.execute(fetch, (row,)).fetchone() or NO_ITEM), *key)


def _verify_rows(span: Span, rows: Iterable[Any]) -> Iterator[SpanRow]:
    """Yield the items of rows that match their checksums. Raise `DataDamaged` at the first that does not."""
    if span.index is not None:
        yield from _verify_index_rows(span, span.index, rows)
        return
    decode = codec.decode
    for stored, size, row_sum, pk, sk in rows:
        # As `compute_sum`, without a call for each row of a page.
        if stored is None or crc32(stored, crc32(pk + sk, size)) != row_sum:
            raise report_damaged_item(span.table, (pk, sk))
        yield decode(stored), size, size


def _verify_index_rows(span: Span, index: Index, rows: Iterable[Any]) -> Iterator[SpanRow]:
    """Do what `_verify_rows` does, for rows of an index, which must have the key of their item."""
    decode, encode_key = codec.decode, index.encode_key
    for stored, size, row_sum, pk, sk, view_size, ipk, isk in rows:
        if stored is None or crc32(stored, crc32(pk + sk, size)) != row_sum:
            raise report_damaged_item(span.table, (pk, sk))
        item = decode(stored)
        if encode_key(item) != (ipk, isk):
            raise report_damaged_index(span.table, index.name, (pk, sk))
        yield item, size, size if view_size is None else view_size


def _build_select(span: Span, sql: str) -> tuple[str, list[bytes | int]]:
    """Return the statement of a span and its bindings.

    The text depends only on the form of the span, so that SQLite prepares it once.
    """
    columns = ("pk", "sk") if span.index is None else ("ipk", "isk", "x.pk", "x.sk")
    conditions, bindings = _build_conditions(span, columns)
    if conditions:
        sql += " WHERE " + " AND ".join(conditions)
    direction = "" if span.forward else " DESC"
    return sql + " ORDER BY " + ", ".join(column + direction for column in columns), bindings


def _build_conditions(span: Span, columns: tuple[str, ...]) -> tuple[list[str], list[bytes | int]]:
    """Return the WHERE conditions of a span and their bindings; `columns` are its key columns in order."""
    conditions: list[str] = []
    bindings: list[bytes | int] = []

    def add(condition: str, *values: bytes) -> None:
        conditions.append(condition)
        bindings.extend(values)

    partition, sort = columns[:2]
    if span.partition is not None:
        add(f"{partition} = ?", span.partition)
    if span.low is not None:
        add(f"{sort} {'>' if span.low_open else '>='} ?", span.low)
    if span.high is not None:
        add(f"{sort} {'<' if span.high_open else '<='} ?", span.high)
    if span.after is not None:
        placeholders = ", ".join("?" * len(span.after))
        add(f"({', '.join(columns)}) {'>' if span.forward else '<'} ({placeholders})", *span.after)
    return conditions, bindings
