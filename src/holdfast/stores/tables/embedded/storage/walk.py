"""A span walked: one SELECT, rows as they come."""

from __future__ import annotations

from collections.abc import Iterator

import apsw

from holdfast.stores.tables.embedded.plan.span import Span

Row = tuple[bytes, int, int]
"""What a page needs of a row: the item, its size, and the size of what the index holds of it."""


def rows(connection: apsw.Connection, span: Span, limit: int | None) -> Iterator[Row]:
    sql, bindings = select(span)
    if limit is not None:
        sql += " LIMIT ?"
        bindings.append(limit)
    return connection.execute(sql, bindings)


def select(span: Span) -> tuple[str, list[bytes | int]]:
    """The statement of a span. Its text depends on the span's form alone, so that it is prepared once."""
    number = span.table.number
    if span.index is None:
        columns: tuple[str, ...] = ("pk", "sk")
        sort = "sk"
        sql = f"SELECT item, size, size FROM items_{number}"
    else:
        columns, sort = ("ipk", "isk", "x.pk", "x.sk"), "isk"
        # CROSS JOIN is SQLite's way to fix the order: walk the index, look up each item by its row.
        sql = (
            f"SELECT i.item, i.size, coalesce(x.size, i.size) FROM index_{number}_{span.index.slot} x"
            f" CROSS JOIN items_{number} i ON i.id = x.id"
        )
    conditions, bindings = _conditions(span, columns, sort)
    if conditions:
        sql += " WHERE " + " AND ".join(conditions)
    direction = "" if span.forward else " DESC"
    return sql + " ORDER BY " + ", ".join(column + direction for column in columns), bindings


def _conditions(span: Span, columns: tuple[str, ...], sort: str) -> tuple[list[str], list[bytes | int]]:
    conditions: list[str] = []
    bindings: list[bytes | int] = []

    def add(condition: str, *values: bytes) -> None:
        conditions.append(condition)
        bindings.extend(values)

    partition = columns[0]
    if span.partition is not None:
        add(f"{partition} = ?", span.partition)
    if span.low is not None:
        add(f"{sort} {'>' if span.low_open else '>='} ?", span.low)
    if span.high is not None:
        add(f"{sort} {'<' if span.high_open else '<='} ?", span.high)
    if span.first is not None:
        add(f"{partition} >= ?", span.first)
    if span.last is not None:
        add(f"{partition} < ?", span.last)
    if span.after is not None:
        places = ", ".join("?" * len(span.after))
        add(f"({', '.join(columns)}) {'>' if span.forward else '<'} ({places})", *span.after)
    return conditions, bindings
