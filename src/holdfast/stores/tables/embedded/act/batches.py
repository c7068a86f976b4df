"""BatchGetItem and BatchWriteItem."""

from __future__ import annotations

import msgspec

from holdfast.core.errors import InvalidRequest
from holdfast.core.limits import BATCH_READ_BYTES_MAX
from holdfast.operations.expressions import project
from holdfast.operations.tables import (
    BatchGetItem,
    BatchGetItemResult,
    BatchWrite,
    BatchWriteItem,
    BatchWriteItemResult,
    ConsumedCapacity,
    KeysOfTable,
    Put,
    Units,
)
from holdfast.operations.values import Item
from holdfast.stores.tables.embedded.plan import capacity, writes
from holdfast.stores.tables.embedded.storage import codec
from holdfast.stores.tables.embedded.storage.reading import Reading, keyed
from holdfast.stores.tables.embedded.storage.writer import Writer
from holdfast.stores.tables.embedded.table import Place, Table
from holdfast.stores.tables.embedded.validate.keys import NOT_THE_SCHEMA, place_of_item, place_of_key
from holdfast.stores.tables.embedded.validate.updates import check_nested_paths

DUPLICATES = "Provided list of item keys contains duplicates"


def batch_get_item(operation: BatchGetItem, reading: Reading) -> BatchGetItemResult:
    """Read several items. All keys are checked before any is read. Past 16 MB the rest is returned as
    unprocessed.
    """
    planned = [(request, *_places(request, reading)) for request in operation.requests]
    room = BATCH_READ_BYTES_MAX
    answers: dict[str, list[Item]] = {}
    unprocessed: list[KeysOfTable] = []
    consumed: list[ConsumedCapacity] = []
    for request, table, places in planned:
        found, units, room = _found(request, table, places, room, reading)
        left = request.keys[len(found) :]
        if left:
            unprocessed.append(msgspec.structs.replace(request, keys=left))
        answers[request.table] = [
            item if request.projection is None else project(request.projection, item)
            for item in found
            if item is not None and not (operation.hide_expired and table.is_expired(item, reading.now))
        ]
        consumed.append(ConsumedCapacity(table.name, Units(read=units)))
    return BatchGetItemResult(
        answers, tuple(unprocessed), () if operation.capacity == "NONE" else tuple(consumed)
    )


def _found(
    request: KeysOfTable, table: Table, places: list[Place], room: int, reading: Reading
) -> tuple[list[Item | None], float, int]:
    """Return as many of the first items as fit into `room`, the units read, and the room that is left."""
    found: list[Item | None] = []
    units = 0.0
    for place in places:
        _, stored, size = keyed(reading.connection, table, place)
        if size > room:
            return found, units, 0
        room -= size
        units += capacity.read_units(size, consistent=request.consistent)
        found.append(None if stored is None else codec.decode(stored))
    return found, units, room


def _places(request: KeysOfTable, reading: Reading) -> tuple[Table, list[Place]]:
    table = reading.table(request.table)
    places = [place_of_key(table, key) for key in request.keys]
    if len(set(places)) != len(places):
        raise InvalidRequest(DUPLICATES)
    if request.projection is not None:
        check_nested_paths(table, request.projection)
    return table, places


def batch_write_item(operation: BatchWriteItem, writer: Writer) -> BatchWriteItemResult:
    """Write several items. All entries are checked before any is written: one invalid entry refuses them
    all.
    """
    planned = _checked(operation.writes, writer)
    consumed: list[ConsumedCapacity] = []
    for write, table, place in planned:
        old = writer.read(table, place)
        if isinstance(write, Put):
            change = writes.put(table, place, old, write.item)
        elif (change := writes.delete(table, place, old)) is None:  # type: ignore[assignment]
            consumed.append(capacity.of_change(None, table.name))
            continue
        writer.apply(change)
        if operation.capacity != "NONE":
            consumed.append(capacity.of_change(change, table.name))
    return BatchWriteItemResult((), () if operation.capacity == "NONE" else capacity.summed(consumed))


def _checked(batch: tuple[BatchWrite, ...], writer: Writer) -> list[tuple[BatchWrite, Table, Place]]:
    planned: list[tuple[BatchWrite, Table, Place]] = []
    tables: dict[str, Table] = {}
    seen: set[tuple[int, Place]] = set()
    for write in batch:
        table = tables.get(write.table)
        if table is None:
            table = tables[write.table] = writer.table(write.table)
        place = _place(table, write)
        if (table.number, place) in seen:
            raise InvalidRequest(DUPLICATES)
        seen.add((table.number, place))
        planned.append((write, table, place))
    return planned


def _place(table: Table, write: BatchWrite) -> Place:
    if not isinstance(write, Put):
        return place_of_key(table, write.key)
    # DynamoDB refuses a put with a missing or mistyped key with a shorter text in a batch than in PutItem.
    for part in table.keys.parts:
        if type(write.item.get(part.name)) not in part.types:
            raise InvalidRequest(NOT_THE_SCHEMA)
    return place_of_item(table, write.item)
