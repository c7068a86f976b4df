"""TransactWriteItems and TransactGetItems.

The engine is serial, so isolation costs nothing: a transaction is one unit of work. Each action is checked
against the current items. Either all pass and all are applied, or none is and each reports its reason.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Final

import msgspec

from holdfast.core.errors import (
    CancellationReason,
    ConditionFailed,
    EmptyKeyValue,
    IdempotencyMismatch,
    InvalidRequest,
    TransactionCancelled,
)
from holdfast.core.limits import TRANSACTION_BYTES_MAX, TRANSACTION_TOKEN_LIFETIME_S
from holdfast.operations.expressions import project
from holdfast.operations.tables import (
    ConditionCheck,
    ConsumedCapacity,
    DeleteItem,
    PutItem,
    TransactGetItems,
    TransactGetItemsResult,
    TransactWrite,
    TransactWriteItems,
    TransactWriteItemsResult,
    Units,
    UpdateItem,
)
from holdfast.operations.values import Item
from holdfast.stores.tables.embedded.plan import capacity, writes
from holdfast.stores.tables.embedded.plan.change import Change, Stored
from holdfast.stores.tables.embedded.storage import codec, tokens
from holdfast.stores.tables.embedded.storage.reading import Reading, keyed
from holdfast.stores.tables.embedded.storage.writer import Writer
from holdfast.stores.tables.embedded.table import Place, Table
from holdfast.stores.tables.embedded.validate.keys import place_of_item, place_of_key
from holdfast.stores.tables.embedded.validate.updates import check_nested_paths, check_update

ONE_ITEM_TWICE: Final = "Transaction request cannot include multiple operations on one item"
DIFFERENT_REQUEST: Final = (
    "An error occurred (IdempotentParameterMismatchException): The provided client token is already in use"
    " with different request parameters"
)
TRANSACTIONAL: Final = 2.0
_IN_ORDER: Final = msgspec.msgpack.Encoder(order="deterministic")
# The names of action types in the fingerprints of stored tokens.
_KINDS: Final[dict[type, str]] = {
    PutItem: "PutItem",
    UpdateItem: "UpdateItem",
    DeleteItem: "DeleteItem",
    ConditionCheck: "ConditionCheck",
}


def transact_write_items(operation: TransactWriteItems, writer: Writer) -> TransactWriteItemsResult:
    if operation.token is not None and _is_repeat(operation, operation.token, writer):
        return _repeated(operation, writer)
    planned = [
        (action, *_placed_or_cancelled(action, position, len(operation.actions), writer))
        for position, action in enumerate(operation.actions)
    ]
    _check_distinct([(table.number, place) for _, table, place in planned])
    olds = [writer.read(table, place) for _, table, place in planned]
    changes = _judged(planned, olds)
    if sum(change.new_size for change in changes if change) > TRANSACTION_BYTES_MAX:
        raise InvalidRequest("Transaction size has exceeded the maximum allowed size")
    for change in changes:
        if change is not None:
            writer.apply(change)
    if operation.capacity == "NONE":
        return TransactWriteItemsResult()
    consumed = [
        capacity.of_change(change, table.name, factor=TRANSACTIONAL, checked=old.size if old else 0)
        for change, (_, table, _), old in zip(changes, planned, olds, strict=True)
    ]
    return TransactWriteItemsResult(capacity.summed(consumed, transactional=True))


def _is_repeat(operation: TransactWriteItems, token: str, writer: Writer) -> bool:
    fingerprint = operation.fingerprint or _fingerprint(operation)
    known = tokens.find(writer.connection, token, writer.now - TRANSACTION_TOKEN_LIFETIME_S)
    if known is None:
        tokens.keep(writer.connection, token, fingerprint, writer.now)
        return False
    if known != fingerprint:
        raise IdempotencyMismatch(DIFFERENT_REQUEST)
    return True


def _fingerprint(operation: TransactWriteItems) -> bytes:
    """Build a fingerprint for a caller that gives none: a repeat must have the same actions."""
    kinds = [_KINDS[type(action)] for action in operation.actions]
    return sha256(_IN_ORDER.encode((kinds, operation.actions))).digest()


def _repeated(operation: TransactWriteItems, writer: Writer) -> TransactWriteItemsResult:
    """Return the result of a repeated transaction, which has no effect and is billed as a read of its
    items.
    """
    if operation.capacity == "NONE":
        return TransactWriteItemsResult()
    consumed = []
    for action in operation.actions:
        table, place = _placed(action, writer)
        stored = writer.read(table, place)
        units = capacity.read_units(stored.size if stored else 0, consistent=True)
        consumed.append(ConsumedCapacity(table.name, Units(read=units * TRANSACTIONAL)))
    return TransactWriteItemsResult(capacity.summed(consumed, transactional=True))


def _placed_or_cancelled(
    action: TransactWrite, position: int, count: int, writer: Writer
) -> tuple[Table, Place]:
    try:
        return _placed(action, writer)
    except EmptyKeyValue:
        raise
    except InvalidRequest as refusal:
        raise _cancelled_at(position, count, refusal) from None


def _cancelled_at(position: int, count: int, refusal: InvalidRequest) -> TransactionCancelled:
    """Build the cancellation by the first action that does not fit its table. The other actions are not
    checked.
    """
    reasons = [CancellationReason() for _ in range(count)]
    reasons[position] = CancellationReason("ValidationError", refusal.message)
    return TransactionCancelled(reasons)


def _placed(action: TransactWrite, writer: Writer) -> tuple[Table, Place]:
    table = writer.table(action.table)
    if isinstance(action, PutItem):
        return table, place_of_item(table, action.item)
    place = place_of_key(table, action.key)
    if isinstance(action, UpdateItem) and action.update is not None:
        check_update(table, action.update)
    return table, place


def _check_distinct(places: list[tuple[int, Place]]) -> None:
    if len(set(places)) != len(places):
        raise InvalidRequest(ONE_ITEM_TWICE)


def _judged(
    planned: list[tuple[TransactWrite, Table, Place]], olds: list[Stored | None]
) -> list[Change | None]:
    reasons: list[CancellationReason] = []
    changes: list[Change | None] = []
    for (action, table, place), old in zip(planned, olds, strict=True):
        try:
            changes.append(_decided(action, table, place, old))
            reasons.append(CancellationReason())
        except ConditionFailed as failure:
            reasons.append(
                CancellationReason("ConditionalCheckFailed", "The conditional request failed", failure.item)
            )
        except EmptyKeyValue:
            raise
        except InvalidRequest as refusal:
            reasons.append(CancellationReason("ValidationError", refusal.message))
    if len(changes) != len(planned):
        raise TransactionCancelled(reasons)
    return changes


def _decided(action: TransactWrite, table: Table, place: Place, old: Stored | None) -> Change | None:
    writes.require(action.condition, old, action.returns_on_failure)
    match action:
        case PutItem():
            return writes.put(table, place, old, action.item)
        case UpdateItem():
            return writes.update(table, place, old, action)
        case DeleteItem():
            return writes.delete(table, place, old)
        case ConditionCheck():
            return None


def transact_get_items(operation: TransactGetItems, reading: Reading) -> TransactGetItemsResult:
    """Read all items from one state: the caller passes a snapshot to read in."""
    planned: list[tuple[Table, Place]] = []
    for number, get in enumerate(operation.gets):
        table = reading.table(get.table)
        try:
            planned.append((table, place_of_key(table, get.key)))
        except EmptyKeyValue:
            raise
        except InvalidRequest as refusal:
            raise _cancelled_at(number, len(operation.gets), refusal) from None
        if get.projection is not None:
            check_nested_paths(table, get.projection)
    _check_distinct([(table.number, place) for table, place in planned])
    items: list[Item | None] = []
    consumed: list[ConsumedCapacity] = []
    size_bytes = 0
    for get, (table, place) in zip(operation.gets, planned, strict=True):
        _, stored, size = keyed(reading.connection, table, place)
        item = None if stored is None else codec.decode(stored)
        size_bytes += size or 0
        units = capacity.read_units(size or 0, consistent=True) * TRANSACTIONAL
        consumed.append(ConsumedCapacity(table.name, Units(read=units)))
        items.append(item if item is None or get.projection is None else project(get.projection, item))
    if size_bytes > TRANSACTION_BYTES_MAX:
        raise InvalidRequest("Transaction size has exceeded the maximum allowed size")
    return TransactGetItemsResult(
        tuple(items),
        () if operation.capacity == "NONE" else capacity.summed(consumed, transactional=True),
    )
