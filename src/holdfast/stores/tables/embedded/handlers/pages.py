"""Handlers of Query and Scan in the embedded engine: each call reads one page of a span of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate

from holdfast.core.limits import MAX_PAGE_BYTES
from holdfast.operations.expressions import evaluate_condition, project
from holdfast.operations.tables import ConsumedCapacity, PageResult, Query, Scan, Units
from holdfast.operations.values import Item
from holdfast.stores.tables.embedded.plan import capacity
from holdfast.stores.tables.embedded.plan.span import Span
from holdfast.stores.tables.embedded.storage.reader import Reader
from holdfast.stores.tables.embedded.validate import pages
from holdfast.stores.tables.embedded.validate.pages import Selection


def query(operation: Query, reader: Reader) -> PageResult:
    """Validate a query and read one page."""
    table = reader.get_table(operation.table)
    span, selection = pages.validate_query(table, operation)
    return _read_page(operation, span, selection, reader)


def scan(operation: Scan, reader: Reader) -> PageResult:
    """Validate a scan and read one page."""
    table = reader.get_table(operation.table)
    span, selection = pages.validate_scan(table, operation)
    return _read_page(operation, span, selection, reader)


def _read_page(operation: Query | Scan, span: Span, selection: Selection, reader: Reader) -> PageResult:
    """Return one page. It ends with the item that reaches its limit or 1 MB; filters do not extend it."""
    is_match = _build_filter(operation, span, reader)
    project_item = _build_projector(span, selection)
    bytes_max, limit = MAX_PAGE_BYTES, operation.limit
    items: list[Item] = []
    scanned = count = size = fetched = 0
    last: Item | None = None
    for rows in reader.select_rows(span, limit):
        taken = _count_taken(rows.view_sizes, bytes_max - size, None if limit is None else limit - scanned)
        read = rows.items[:taken]
        last = read[-1]
        scanned += taken
        size += sum(rows.view_sizes[:taken])
        fetched += sum(rows.sizes[:taken])
        matches = read if is_match is None else list(filter(is_match, read))
        count += len(matches)
        if not selection.count_only:
            items += matches if project_item is None else map(project_item, matches)
        if size >= bytes_max or scanned == limit:
            break
    is_full = scanned == limit or size >= bytes_max
    return PageResult(
        None if selection.count_only else items,
        count,
        scanned,
        _extract_last_key(span, last) if is_full and last is not None else None,
        None if operation.capacity == "NONE" else _measure_page(operation, span, selection, size, fetched),
    )


def _count_taken(sizes: Sequence[int], bytes_left: int, rows_left: int | None) -> int:
    """Return how many of the next rows belong to the page, at least one."""
    taken = len(sizes) if rows_left is None else min(len(sizes), rows_left)
    if sum(sizes) < bytes_left:
        return taken
    # The row that reaches the limit still belongs to it.
    return min(taken, 1 + sum(total < bytes_left for total in accumulate(sizes)))


def _build_filter(operation: Query | Scan, span: Span, reader: Reader) -> Callable[[Item], bool] | None:
    """Return the function that decides whether the page includes an item, or None if it includes all."""
    condition, index, table = operation.filter, span.index, span.table
    hides_expired = operation.hide_expired and table.lifetime_attribute is not None
    if condition is None:
        return (lambda item: not table.is_expired(item, reader.now)) if hides_expired else None
    view = index.project if index is not None and index.projected is not None else None

    def is_match(item: Item) -> bool:
        if hides_expired and table.is_expired(item, reader.now):
            return False
        return evaluate_condition(condition, item if view is None else view(item))

    return is_match


def _build_projector(span: Span, selection: Selection) -> Callable[[Item], Item] | None:
    """Return the function that projects an item, or None if items are returned as stored."""
    index, projection = span.index, selection.projection
    if projection is not None:
        return lambda item: project(projection, item)
    if index is None or index.projected is None or selection.whole:
        return None
    return index.project


def _extract_last_key(span: Span, item: Item) -> Item:
    """Return the item's key attributes in this span: the start key of the next page."""
    names = span.index.start_key_names if span.index else span.table.keys.names
    return {name: item[name] for name in names}


def _measure_page(
    operation: Query | Scan, span: Span, selection: Selection, size: int, fetched: int
) -> ConsumedCapacity:
    """Return the capacity of a page: `size` bytes read from the table or index, `fetched` bytes of whole
    items.
    """
    units = Units(read=capacity.count_page_units(size, consistent=operation.consistent))
    index = span.index
    if index is None:
        return ConsumedCapacity(span.table.name, units)
    own = Units()
    if selection.whole and fetched:
        own = Units(read=capacity.count_page_units(fetched, consistent=operation.consistent))
    if index.is_global:
        return ConsumedCapacity(span.table.name, own, {}, {index.name: units})
    return ConsumedCapacity(span.table.name, own, {index.name: units})
