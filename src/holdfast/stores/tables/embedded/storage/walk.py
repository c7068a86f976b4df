"""Reads the rows of a span with one SELECT, row by row as they are needed.

A segmented scan walks only the keys, which are all in one index of the file, and fetches only the items of
its segment.
"""

from __future__ import annotations

from collections.abc import Iterator

import apsw

from holdfast.stores.sqlite.checksums import is_checksum_error
from holdfast.stores.tables.embedded.plan.span import Segment, Span
from holdfast.stores.tables.embedded.storage.damage import report_damaged_item, report_damaged_rows
from holdfast.stores.tables.embedded.storage.row_sums import compute_sum

SpanRow = tuple[bytes, int, int]
"""A row of a page: the item, its size, and the size of the index's copy of it."""


def select_rows(connection: apsw.Connection, span: Span, limit: int | None) -> Iterator[SpanRow]:
    """Iterate over the rows of a span, in its order, at most `limit`.

    The limit is ignored for a segment of a scan.
    """
    number, index = span.table.number, span.index
    if span.segment is not None:
        return _select_segment_rows(connection, span, span.segment)
    if index is None:
        sql, bindings = _build_select(span, f"SELECT item, size, size FROM items_{number}")
    else:
        # CROSS JOIN is SQLite's way to fix the order: walk the index, look up each item by its row.
        sql, bindings = _build_select(
            span,
            f"SELECT i.item, i.size, coalesce(x.size, i.size) FROM index_{number}_{index.slot} x"
            f" CROSS JOIN items_{number} i ON i.id = x.id",
        )
    if limit is not None:
        sql += " LIMIT ?"
        bindings.append(limit)
    return connection.execute(sql, bindings)


def select_rows_alone(
    connection: apsw.Connection, unverified: apsw.Connection, span: Span
) -> Iterator[SpanRow]:
    """Iterate over the rows of a span in a file with damaged pages, and raise `DataDamaged` at the first that
    is not right.

    The keys come from verified pages, so that none is missing. Each item is read by its row, without its page
    being verified, and compared with its own checksum.
    """
    number, index, segment = span.table.number, span.index, span.segment
    rows = (
        f"items_{number} INDEXED BY items_{number}_key" if index is None else f"index_{number}_{index.slot} x"
    )
    view = "NULL" if index is None else "x.size"
    partition = "pk" if index is None else "ipk"
    sql, bindings = _build_select(span, f"SELECT {partition}, pk, sk, id, {view} FROM {rows}")
    fetch = f"SELECT item, size, sum FROM items_{number} WHERE id = ?"
    try:
        for own_partition, pk, sk, row, view_size in connection.execute(sql, bindings):
            if segment is not None and not segment.contains(own_partition):
                continue
            found = unverified.execute(fetch, (row,)).fetchone()
            if found is None or compute_sum((pk, sk), found[1], found[0]) != found[2]:
                raise report_damaged_item(span.table, (pk, sk))
            yield found[0], found[1], found[1] if view_size is None else view_size
    except apsw.IOError as error:
        if not is_checksum_error(error):
            raise
        raise report_damaged_rows(span.table, None if index is None else index.name) from error


def _select_segment_rows(connection: apsw.Connection, span: Span, segment: Segment) -> Iterator[SpanRow]:
    """Iterate over the rows whose partition belongs to the segment."""
    number, index = span.table.number, span.index
    if index is None:
        sql, bindings = _build_select(span, f"SELECT pk, id, NULL FROM items_{number}")
    else:
        sql, bindings = _build_select(span, f"SELECT ipk, id, size FROM index_{number}_{index.slot} x")
    fetch = f"SELECT item, size, coalesce(?, size) FROM items_{number} WHERE id = ?"
    for partition, row, view_size in connection.execute(sql, bindings):
        if segment.contains(partition):
            yield from connection.execute(fetch, (view_size, row))


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
