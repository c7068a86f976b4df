"""Handlers of BatchGetItem and BatchWriteItem in the embedded engine."""

from __future__ import annotations

import msgspec

from holdfast.core.errors import InvalidRequest
from holdfast.core.limits import MAX_BATCH_READ_BYTES
from holdfast.operations.expressions import project
from holdfast.operations.tables import (
    BatchGetItem,
    BatchGetItemResult,
    BatchWrite,
    BatchWriteItem,
    BatchWriteItemResult,
    ConsumedCapacity,
    KeysAndAttributes,
    Put,
    Units,
)
from holdfast.operations.values import Item
from holdfast.stores.tables.embedded.plan import capacity, writes
from holdfast.stores.tables.embedded.storage.reader import KeyedReader
from holdfast.stores.tables.embedded.storage.writer import Writer
from holdfast.stores.tables.embedded.table import KeyBytes, Table
from holdfast.stores.tables.embedded.validate.keys import SCHEMA_MISMATCH, validate_item_key, validate_key
from holdfast.stores.tables.embedded.validate.updates import check_nested_paths

DUPLICATES = "Provided list of item keys contains duplicates"


def batch_get_item(operation: BatchGetItem, reader: KeyedReader) -> BatchGetItemResult:
    """Read several items, after checking all keys. Keys past 16 MB of items are returned as unprocessed."""
    planned = [(request, *_validate_keys(request, reader)) for request in operation.requests]
    bytes_left = MAX_BATCH_READ_BYTES
    items_by_table: dict[str, list[Item]] = {}
    unprocessed: list[KeysAndAttributes] = []
    consumed: list[ConsumedCapacity] = []
    for request, table, keys in planned:
        found, units, bytes_left = _read_items(request, table, keys, bytes_left, reader)
        unread_keys = request.keys[len(found) :]
        if unread_keys:
            unprocessed.append(msgspec.structs.replace(request, keys=unread_keys))
        items_by_table[request.table] = [
            item if request.projection is None else project(request.projection, item)
            for item in found
            if item is not None and not (operation.hide_expired and table.is_expired(item, reader.now))
        ]
        consumed.append(ConsumedCapacity(table.name, Units(read=units)))
    return BatchGetItemResult(
        items_by_table, tuple(unprocessed), () if operation.capacity == "NONE" else tuple(consumed)
    )


def _read_items(
    request: KeysAndAttributes, table: Table, keys: list[KeyBytes], bytes_left: int, reader: KeyedReader
) -> tuple[list[Item | None], float, int]:
    """Return the first items that fit into `bytes_left`, the units read, and the bytes that are left."""
    found: list[Item | None] = []
    units = 0.0
    for key_bytes in keys:
        _, item, size = reader.read_item(table, key_bytes)
        if size > bytes_left:
            return found, units, 0
        bytes_left -= size
        units += capacity.count_read_units(size, consistent=request.consistent)
        found.append(item)
    return found, units, bytes_left


def _validate_keys(request: KeysAndAttributes, reader: KeyedReader) -> tuple[Table, list[KeyBytes]]:
    """Return the request's table and its keys as bytes.

    Raise `InvalidRequest` if a key is invalid or occurs twice.
    """
    table = reader.get_table(request.table)
    keys = [validate_key(table, key) for key in request.keys]
    if len(set(keys)) != len(keys):
        raise InvalidRequest(DUPLICATES)
    if request.projection is not None:
        check_nested_paths(table, request.projection)
    return table, keys


def batch_write_item(operation: BatchWriteItem, writer: Writer) -> BatchWriteItemResult:
    """Write several items, after checking all entries: one invalid entry refuses them all."""
    planned = _validate_writes(operation.writes, writer)
    consumed: list[ConsumedCapacity] = []
    for write, table, key_bytes in planned:
        old = writer.read(table, key_bytes)
        if isinstance(write, Put):
            change = writes.plan_put(table, key_bytes, old, write.item)
        elif (change := writes.plan_delete(table, key_bytes, old)) is None:  # type: ignore[assignment]
            consumed.append(capacity.measure_change(None, table.name))
            continue
        writer.apply(change)
        if operation.capacity != "NONE":
            consumed.append(capacity.measure_change(change, table.name))
    return BatchWriteItemResult((), () if operation.capacity == "NONE" else capacity.sum_by_table(consumed))


def _validate_writes(
    batch: tuple[BatchWrite, ...], writer: Writer
) -> list[tuple[BatchWrite, Table, KeyBytes]]:
    """Return each write with its table and key.

    Raise `InvalidRequest` if one is invalid or a key occurs twice.
    """
    planned: list[tuple[BatchWrite, Table, KeyBytes]] = []
    tables: dict[str, Table] = {}
    seen: set[tuple[int, KeyBytes]] = set()
    for write in batch:
        table = tables.get(write.table)
        if table is None:
            table = tables[write.table] = writer.get_table(write.table)
        key_bytes = _validate_write(table, write)
        if (table.number, key_bytes) in seen:
            raise InvalidRequest(DUPLICATES)
        seen.add((table.number, key_bytes))
        planned.append((write, table, key_bytes))
    return planned


def _validate_write(table: Table, write: BatchWrite) -> KeyBytes:
    """Return the key of the write as bytes, or raise `InvalidRequest`."""
    if not isinstance(write, Put):
        return validate_key(table, write.key)
    # DynamoDB refuses a put with a missing or mistyped key with a shorter text in a batch than in PutItem.
    for part in table.keys.parts:
        if type(write.item.get(part.name)) not in part.types:
            raise InvalidRequest(SCHEMA_MISMATCH)
    return validate_item_key(table, write.item)
