"""Reads the rows of a span with one SELECT, a few at a time as they are needed.

Pages that are still in the write-ahead log have no checksum that SQLite would compare. While there are any,
each item is compared with the checksum of its row, and each row of an index with its item. `map` and `zip`
handle the rows of a chunk: a loop in Python would cost as much as the checksums.

A segmented scan walks only the keys, which are all in one index of the file, and fetches only the items of
its segment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from operator import add
from typing import Any, Final, NamedTuple

import apsw
from isal.isal_zlib import crc32

from holdfast.core.errors import DataDamaged, StoreFileError
from holdfast.core.limits import MAX_PAGE_BYTES
from holdfast.operations.values import Item
from holdfast.stores.sqlite.checksums import is_checksum_error
from holdfast.stores.tables.embedded.plan.span import Span
from holdfast.stores.tables.embedded.storage import codec
from holdfast.stores.tables.embedded.storage.damage import (
    report_damaged_index,
    report_damaged_item,
    report_damaged_rows,
)
from holdfast.stores.tables.embedded.storage.row_sums import compute_sum
from holdfast.stores.tables.embedded.table import Index

NO_ITEM: Final = (None, None, None)
FIRST_ROWS: Final = 2
MAX_ROWS: Final = 64
# A row is in one page if it is not longer than these: SQLite keeps 8,149 bytes of a table's row in its page,
# of which two keys take up to 3,072, and 2,014 bytes of an index's row, which has two keys, or four. A sort
# key has up to 1,024 bytes, so two keys are in one page if the partition is short.
MAX_TRUSTED_BYTES: Final = 5000
MAX_TRUSTED_PARTITION_BYTES: Final = 450
MAX_TRUSTED_KEYS_BYTES: Final = 1500
Columns = list[tuple[Any, ...]]


class Rows(NamedTuple):
    """Consecutive rows of a span: the items, their sizes, and the sizes of the index's copies of them."""

    items: list[Item]
    sizes: Sequence[int]
    view_sizes: Sequence[int]


def select_rows(
    connection: apsw.Connection, span: Span, limit: int | None, *, trusts_pages: bool
) -> Iterator[Rows]:
    """Iterate over the rows of a span, in its order, at most `limit`.

    Raise `DataDamaged` at the first that is not right. `trusts_pages` says that all pages are verified. The
    limit is ignored for a segment of a scan.
    """
    if span.segment is not None:
        rows = _verify(span, _select_by_key(connection, connection, span))
    elif trusts_pages:
        rows = _trust(connection, span, limit)
    else:
        rows = _verify(span, _select_items(connection, span, limit, ["sum", *_list_key_columns(span)]))
    return _name_damage(span, rows)


def select_rows_alone(connection: apsw.Connection, unverified: apsw.Connection, span: Span) -> Iterator[Rows]:
    """Iterate over the rows of a span in a file with damaged pages, and raise `DataDamaged` at the first that
    is not right.

    The keys come from verified pages, so that none is missing. Each item is read by its row, without its page
    being verified, and compared with its own checksum.
    """
    try:
        yield from _name_damage(span, _verify(span, _select_by_key(connection, unverified, span)))
    except apsw.IOError as error:
        if not is_checksum_error(error):
            raise
        raise _report_damaged_rows(span) from error


def _select_items(
    connection: apsw.Connection, span: Span, limit: int | None, columns: list[str]
) -> Iterator[Any]:
    """Iterate over the rows of a span: the item, its size and more columns, which may be of the index, x."""
    number, index = span.table.number, span.index
    if index is None:
        source = f"items_{number} i"
    else:
        # SQLite walks the left table of a LEFT JOIN first: the index. A row without an item is damage.
        source = f"index_{number}_{index.slot} x LEFT JOIN items_{number} i ON i.id = x.id"
    sql, bindings = _build_select(span, f"SELECT {', '.join(['i.item', 'i.size', *columns])} FROM {source}")
    if limit is not None:
        sql += " LIMIT ?"
        bindings.append(limit)
    return connection.execute(sql, bindings)


def _select_by_key(keys: apsw.Connection, items: apsw.Connection, span: Span) -> Iterator[Any]:
    """Iterate over the rows of a span, or of its segment, by one connection for keys and one for items."""
    number, index, segment = span.table.number, span.index, span.segment
    source = (
        f"items_{number} x INDEXED BY items_{number}_key"
        if index is None
        else f"index_{number}_{index.slot} x"
    )
    sql, bindings = _build_select(span, f"SELECT x.id, {', '.join(_list_key_columns(span))} FROM {source}")
    fetch = f"SELECT item, size, sum FROM items_{number} WHERE id = ?"
    for row, *key in keys.execute(sql, bindings):
        if segment is None or segment.contains(key[-1]):
            yield *_fetch_item(items, fetch, row), *key


def _fetch_item(connection: apsw.Connection, fetch: str, row: int) -> Any:
    """Return the item in a row with its size and checksum; `NO_ITEM` if it is missing or cannot be read.

    The page need not be verified: any of the three may have become a value of another type.
    """
    try:
        found: Any = connection.execute(fetch, (row,)).fetchone()
    except (apsw.CorruptError, UnicodeDecodeError):
        return NO_ITEM
    is_readable = found is not None and type(found[0]) is bytes and type(found[1]) is int
    return found if is_readable else NO_ITEM


def _list_key_columns(span: Span) -> list[str]:
    """Return what is compared with an item: the size of an index's copy of it, if that is another, and its
    keys. The partition is the last one, and missing if the span has only one.
    """
    columns = ["x.size"] if _has_views(span) else []
    if span.index is None:
        columns += ["sk", "pk"]
    else:
        columns += ["x.sk", "x.pk", "isk", "ipk"]
    return columns if span.partition is None else columns[:-1]


def _has_views(span: Span) -> bool:
    """Return whether the rows are those of an index that holds less than the items."""
    return span.index is not None and span.index.projected is not None


def _name_damage(span: Span, rows: Iterator[Rows]) -> Iterator[Rows]:
    """Yield the rows. Raise `DataDamaged` if a column has become a value of another type."""
    try:
        yield from rows
    except (TypeError, UnicodeDecodeError) as error:
        raise _report_damaged_rows(span) from error


def _split(rows: Iterator[Any]) -> Iterator[Columns]:
    """Yield the columns of the rows, a chunk of rows at a time.

    A chunk reads as many rows as the rest of a page has room for, if they are as large as those before.
    """
    left, count = MAX_PAGE_BYTES, FIRST_ROWS
    while columns := list(zip(*islice(rows, count), strict=True)):
        yield columns
        sizes = columns[1]
        left -= sum(sizes)
        largest = max(sizes)
        count = max(1, min(MAX_ROWS, left // max(1, largest)))


def _trust(connection: apsw.Connection, span: Span, limit: int | None) -> Iterator[Rows]:
    """Yield rows from verified pages, which need no comparison with their checksums.

    A page of zeros has a valid checksum. In a tree SQLite refuses it; as the rest of a row that reaches over
    more than one page it is data. From the first such row on, the rows are verified.
    """
    views, lengths = ["x.size"] if _has_views(span) else [], _list_unknown_lengths(span)
    done = 0
    try:
        for columns in _split(_select_items(connection, span, limit, [*views, *lengths])):
            stored, sizes, *others = columns
            if max(map(len, stored)) > MAX_TRUSTED_BYTES:
                break
            if lengths and max(others.pop()) > MAX_TRUSTED_KEYS_BYTES:
                break
            yield Rows(codec.decode_all(stored), sizes, others[0] if others else sizes)
            done += len(stored)
        else:
            return
    except (StoreFileError, TypeError, UnicodeDecodeError) as error:
        # A row of an index without an item, or a column of another type. A repeat that verifies every row
        # names it.
        raise _report_damaged_rows(span) from error
    rows = _select_items(connection, span, limit, ["sum", *_list_key_columns(span)])
    yield from _verify(span, islice(rows, done, None))


def _list_unknown_lengths(span: Span) -> list[str]:
    """Return the expression for how long the keys of a row in an index are; none if they must be short."""
    is_short = span.partition is not None and len(span.partition) <= MAX_TRUSTED_PARTITION_BYTES
    if span.index is None:
        return [] if is_short else ["length(pk) + length(sk)"]
    others = "length(isk) + length(x.pk) + length(x.sk)"
    return [others if is_short else f"length(ipk) + {others}"]


def _verify(span: Span, rows: Iterator[Any]) -> Iterator[Rows]:
    """Yield the rows that are right, until the first that is not; raise `DataDamaged` for that."""
    for columns in _split(rows):
        yield from _verify_chunk(span, columns)


def _verify_chunk(span: Span, columns: Columns) -> Iterator[Rows]:
    """Yield the rows of a chunk that are right; raise `DataDamaged` for the first that is not."""
    index, partition = span.index, span.partition
    stored, sizes, sums, *others = columns
    view_sizes = others.pop(0) if _has_views(span) else sizes
    if partition is not None:
        others.append((partition,) * len(stored))
    sks, pks, *index_keys = others
    right = _count_right(stored, sizes, sums, pks, sks)
    items = codec.decode_all(stored[:right])
    matching = right if index is None else _count_matching(index, items, *index_keys)
    if matching:
        yield Rows(items[:matching], sizes[:matching], view_sizes[:matching])
    if index is not None and matching < right:
        raise report_damaged_index(span.table, index.name, (pks[matching], sks[matching]))
    if right < len(stored):
        raise report_damaged_item(span.table, (pks[right], sks[right]))


def _report_damaged_rows(span: Span) -> DataDamaged:
    return report_damaged_rows(span.table, None if span.index is None else span.index.name)


def _count_right(*columns: tuple[Any, ...]) -> int:
    """Return how many rows match their checksums before the first that does not."""
    stored, sizes, sums, pks, sks = columns
    try:
        # As `compute_sum`.
        if tuple(map(crc32, stored, map(crc32, map(add, pks, sks), sizes))) == sums:
            return len(stored)
    except TypeError:
        pass  # A row without an item, or with a damaged type.
    return next(number for number, row in enumerate(zip(*columns, strict=True)) if not _is_right(*row))


def _is_right(stored: Any, size: Any, row_sum: Any, pk: Any, sk: Any) -> bool:
    try:
        return bool(compute_sum((pk, sk), size, stored) == row_sum)
    except TypeError:
        return False


def _count_matching(index: Index, items: list[Item], isks: tuple[bytes, ...], ipks: tuple[bytes, ...]) -> int:
    """Return how many rows of an index have the key of their item before the first that does not."""
    count = len(items)
    if index.has_keys(items, ipks[:count], isks[:count]):
        return count
    keys = zip(ipks, isks, strict=True)
    wrong = (number for number, item in enumerate(items) if index.encode_key(item) != next(keys))
    return next(wrong, count)


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
