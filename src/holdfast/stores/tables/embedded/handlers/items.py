"""Handlers of GetItem, PutItem, UpdateItem and DeleteItem in the embedded engine."""

from __future__ import annotations

from holdfast.core.errors import InvalidRequest
from holdfast.operations.expressions import project
from holdfast.operations.tables import (
    ConsumedCapacity,
    DeleteItem,
    GetItem,
    GetItemResult,
    PutItem,
    Units,
    UpdateItem,
    WriteResult,
)
from holdfast.stores.tables.embedded.plan import capacity, writes
from holdfast.stores.tables.embedded.storage.reader import KeyedReader, require_readable
from holdfast.stores.tables.embedded.storage.writer import Writer
from holdfast.stores.tables.embedded.validate.keys import validate_item_key, validate_key
from holdfast.stores.tables.embedded.validate.updates import check_nested_paths, check_update


def get_item(operation: GetItem, reader: KeyedReader) -> GetItemResult:
    """Read one item; None if it is absent, or expired and hidden.

    One statement reads the item and the catalog's generation; a changed catalog costs a second statement.
    """
    cache = reader.cache
    catalog = cache.catalog
    while True:
        table = catalog.tables.get(operation.table)
        if table is None or table.record.status == "CREATING":
            catalog = reader.catalog
            table = require_readable(catalog, operation.table)
        try:
            key_bytes = validate_key(table, operation.key)
        except InvalidRequest:
            checked_with, catalog = catalog, reader.catalog
            if catalog.generation == checked_with.generation:
                raise
            continue  # The key was checked against an outdated table.
        generation, item, size = reader.read_item(table, key_bytes)
        if generation == catalog.generation:
            break
        catalog = cache.load(reader.connection)
    if operation.projection is not None:
        check_nested_paths(table, operation.projection)
    if item is not None and operation.hide_expired and table.is_expired(item, reader.now):
        item = None
    consumed = None
    if operation.capacity != "NONE":
        units = capacity.count_read_units(size or 0, consistent=operation.consistent)
        consumed = ConsumedCapacity(table.name, Units(read=units))
    if item is not None and operation.projection is not None:
        item = project(operation.projection, item)
    return GetItemResult(item, consumed)


def put_item(operation: PutItem, writer: Writer) -> WriteResult:
    """Create or replace an item. Raise `ConditionFailed` if its condition does not hold."""
    table = writer.get_table(operation.table)
    key_bytes = validate_item_key(table, operation.item)
    old = writer.read(table, key_bytes)
    writes.require_condition(operation.condition, old, operation.returns_on_failure)
    change = writes.plan_put(table, key_bytes, old, operation.item)
    writer.apply(change)
    return WriteResult(
        old.item if old and operation.returns == "ALL_OLD" else None,
        capacity.measure_write(change, operation.capacity, table.name),
    )


def update_item(operation: UpdateItem, writer: Writer) -> WriteResult:
    """Update or create an item. Raise `ConditionFailed` if its condition does not hold."""
    table = writer.get_table(operation.table)
    key_bytes = validate_key(table, operation.key)
    if operation.update is not None:
        check_update(table, operation.update)
    old = writer.read(table, key_bytes)
    writes.require_condition(operation.condition, old, operation.returns_on_failure)
    change = writes.plan_update(table, key_bytes, old, operation)
    if change is not None:
        writer.apply(change)
    return WriteResult(
        writes.select_returned_values(operation, change),
        capacity.measure_write(change, operation.capacity, table.name),
    )


def delete_item(operation: DeleteItem, writer: Writer) -> WriteResult:
    """Delete an item; do nothing if there is none. Raise `ConditionFailed` if its condition does not hold."""
    table = writer.get_table(operation.table)
    key_bytes = validate_key(table, operation.key)
    old = writer.read(table, key_bytes)
    writes.require_condition(operation.condition, old, operation.returns_on_failure)
    change = writes.plan_delete(table, key_bytes, old)
    if change is not None:
        writer.apply(change)
    return WriteResult(
        old.item if old and operation.returns == "ALL_OLD" else None,
        capacity.measure_write(change, operation.capacity, table.name),
    )
