"""Walks a span: one SELECT, with rows as they are read.

A segmented scan walks only the keys, which are all in one index of the file, and fetches only the items of
its segment.
"""

from __future__ import annotations

from collections.abc import Iterator

import apsw

from holdfast.stores.tables.embedded.plan.span import Segment, Span

Row = tuple[bytes, int, int]
"""What a page needs of a row: the item, its size, and the size of what the index holds of it."""


def rows(connection: apsw.Connection, span: Span, limit: int | None) -> Iterator[Row]:
    number, index = span.table.number, span.index
    if span.segment is not None:
        return _rows_of_segment(connection, span, span.segment)
    if index is None:
        sql, bindings = _select(span, f"SELECT item, size, size FROM items_{number}")
    else:
        # CROSS JOIN is SQLite's way to fix the order: walk the index, look up each item by its row.
        sql, bindings = _select(
            span,
            f"SELECT i.item, i.size, coalesce(x.size, i.size) FROM index_{number}_{index.slot} x"
            f" CROSS JOIN items_{number} i ON i.id = x.id",
        )
    if limit is not None:
        sql += " LIMIT ?"
        bindings.append(limit)
    return connection.execute(sql, bindings)


def _rows_of_segment(connection: apsw.Connection, span: Span, segment: Segment) -> Iterator[Row]:
    number, index = span.table.number, span.index
    if index is None:
        sql, bindings = _select(span, f"SELECT pk, id, NULL FROM items_{number}")
    else:
        sql, bindings = _select(span, f"SELECT ipk, id, size FROM index_{number}_{index.slot} x")
    fetch = f"SELECT item, size, coalesce(?, size) FROM items_{number} WHERE id = ?"
    for partition, row, held in connection.execute(sql, bindings):
        if segment.holds(partition):
            yield from connection.execute(fetch, (held, row))


def _select(span: Span, sql: str) -> tuple[str, list[bytes | int]]:
    """Return the statement of a span. Its text depends only on the span's form, so that it is prepared
    once.
    """
    columns = ("pk", "sk") if span.index is None else ("ipk", "isk", "x.pk", "x.sk")
    conditions, bindings = _conditions(span, columns)
    if conditions:
        sql += " WHERE " + " AND ".join(conditions)
    direction = "" if span.forward else " DESC"
    return sql + " ORDER BY " + ", ".join(column + direction for column in columns), bindings


def _conditions(span: Span, columns: tuple[str, ...]) -> tuple[list[str], list[bytes | int]]:
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
        places = ", ".join("?" * len(span.after))
        add(f"({', '.join(columns)}) {'>' if span.forward else '<'} ({places})", *span.after)
    return conditions, bindings
