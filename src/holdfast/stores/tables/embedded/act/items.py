"""GetItem, PutItem, UpdateItem and DeleteItem."""

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
from holdfast.stores.tables.embedded.storage import codec
from holdfast.stores.tables.embedded.storage.reading import Reading, keyed, readable
from holdfast.stores.tables.embedded.storage.writer import Writer
from holdfast.stores.tables.embedded.validate.keys import place_of_item, place_of_key
from holdfast.stores.tables.embedded.validate.updates import check_nested_paths, check_update


def get_item(operation: GetItem, reading: Reading) -> GetItemResult:
    """Read one item. One statement reads the item and the catalog's generation; a changed catalog costs a
    second.
    """
    cache = reading.cache
    catalog = cache.catalog
    while True:
        table = catalog.tables.get(operation.table)
        if table is None or table.record.status == "CREATING":
            catalog = reading.catalog
            table = readable(catalog, operation.table)
        try:
            place = place_of_key(table, operation.key)
        except InvalidRequest:
            judged_by, catalog = catalog, reading.catalog
            if catalog.generation == judged_by.generation:
                raise
            continue  # the key was checked against an outdated table
        generation, stored, size = keyed(reading.connection, table, place)
        if generation == catalog.generation:
            break
        catalog = cache.load(reading.connection)
    if operation.projection is not None:
        check_nested_paths(table, operation.projection)
    item = None if stored is None else codec.decode(stored)
    if item is not None and operation.hide_expired and table.is_expired(item, reading.now):
        item = None
    consumed = None
    if operation.capacity != "NONE":
        units = capacity.read_units(size or 0, consistent=operation.consistent)
        consumed = ConsumedCapacity(table.name, Units(read=units))
    if item is not None and operation.projection is not None:
        item = project(operation.projection, item)
    return GetItemResult(item, consumed)


def put_item(operation: PutItem, writer: Writer) -> WriteResult:
    table = writer.table(operation.table)
    place = place_of_item(table, operation.item)
    old = writer.read(table, place)
    writes.require(operation.condition, old, operation.returns_on_failure)
    change = writes.put(table, place, old, operation.item)
    writer.apply(change)
    return WriteResult(
        old.item if old and operation.returns == "ALL_OLD" else None,
        capacity.of_write(change, operation.capacity, table.name),
    )


def update_item(operation: UpdateItem, writer: Writer) -> WriteResult:
    table = writer.table(operation.table)
    place = place_of_key(table, operation.key)
    if operation.update is not None:
        check_update(table, operation.update)
    old = writer.read(table, place)
    writes.require(operation.condition, old, operation.returns_on_failure)
    change = writes.update(table, place, old, operation)
    if change is not None:
        writer.apply(change)
    return WriteResult(
        writes.returned(operation, change), capacity.of_write(change, operation.capacity, table.name)
    )


def delete_item(operation: DeleteItem, writer: Writer) -> WriteResult:
    table = writer.table(operation.table)
    place = place_of_key(table, operation.key)
    old = writer.read(table, place)
    writes.require(operation.condition, old, operation.returns_on_failure)
    change = writes.delete(table, place, old)
    if change is not None:
        writer.apply(change)
    return WriteResult(
        old.item if old and operation.returns == "ALL_OLD" else None,
        capacity.of_write(change, operation.capacity, table.name),
    )
