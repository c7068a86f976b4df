"""Query and Scan: walk a span until the page is full."""

from __future__ import annotations

from collections.abc import Callable

from holdfast.core.limits import PAGE_BYTES_MAX
from holdfast.operations.expressions import holds, project
from holdfast.operations.tables import ConsumedCapacity, PageResult, Query, Scan, Units
from holdfast.operations.values import Item
from holdfast.stores.tables.embedded.plan import capacity
from holdfast.stores.tables.embedded.plan.span import Span
from holdfast.stores.tables.embedded.storage import codec
from holdfast.stores.tables.embedded.storage.reading import Reading
from holdfast.stores.tables.embedded.validate import pages
from holdfast.stores.tables.embedded.validate.pages import Selection


def query(operation: Query, reading: Reading) -> PageResult:
    table = reading.table(operation.table)
    span, selection = pages.query(table, operation)
    return _page(operation, span, selection, reading)


def scan(operation: Scan, reading: Reading) -> PageResult:
    table = reading.table(operation.table)
    span, selection = pages.scan(table, operation)
    return _page(operation, span, selection, reading)


def _page(operation: Query | Scan, span: Span, selection: Selection, reading: Reading) -> PageResult:
    """Return one page. It ends with the item that reaches its limit or 1 MB; filters do not extend it."""
    keeps = _filter(operation, span, reading)
    shows = _shape(span, selection)
    decode, bytes_max, limit = codec.decode, PAGE_BYTES_MAX, operation.limit
    items: list[Item] = []
    scanned = count = size = fetched = 0
    last: Item | None = None
    for stored, item_bytes, held_bytes in reading.rows(span, limit):
        last = item = decode(stored)
        scanned += 1
        size += held_bytes
        fetched += item_bytes
        if keeps is None or keeps(item):
            count += 1
            if not selection.count_only:
                items.append(item if shows is None else shows(item))
        if size >= bytes_max or scanned == limit:
            break
    full = scanned == limit or size >= bytes_max
    return PageResult(
        None if selection.count_only else items,
        count,
        scanned,
        _last_key(span, last) if full and last is not None else None,
        None if operation.capacity == "NONE" else _consumed(operation, span, selection, size, fetched),
    )


def _filter(operation: Query | Scan, span: Span, reading: Reading) -> Callable[[Item], bool] | None:
    condition, index, table = operation.filter, span.index, span.table
    hides = operation.hide_expired and table.lifetime_attribute is not None
    if condition is None:
        return (lambda item: not table.is_expired(item, reading.now)) if hides else None
    view = index.view if index is not None and index.projected is not None else None

    def keeps(item: Item) -> bool:
        if hides and table.is_expired(item, reading.now):
            return False
        return holds(condition, item if view is None else view(item))

    return keeps


def _shape(span: Span, selection: Selection) -> Callable[[Item], Item] | None:
    """Return the function that projects an item, or None if items are returned as stored."""
    index, projection = span.index, selection.projection
    if projection is not None:
        return lambda item: project(projection, item)
    if index is None or index.projected is None or selection.whole:
        return None
    return index.view


def _last_key(span: Span, item: Item) -> Item:
    names = span.index.start_key_names if span.index else span.table.keys.names
    return {name: item[name] for name in names}


def _consumed(
    operation: Query | Scan, span: Span, selection: Selection, size: int, fetched: int
) -> ConsumedCapacity:
    units = Units(read=capacity.page_units(size, consistent=operation.consistent))
    index = span.index
    if index is None:
        return ConsumedCapacity(span.table.name, units)
    own = Units()
    if selection.whole and fetched:
        own = Units(read=capacity.page_units(fetched, consistent=operation.consistent))
    if index.is_global:
        return ConsumedCapacity(span.table.name, own, {}, {index.name: units})
    return ConsumedCapacity(span.table.name, own, {index.name: units})
