"""Handlers of TransactWriteItems and TransactGetItems in the embedded engine.

The engine is serial, so isolation costs nothing: a transaction is one unit of work. Each action is checked
against the current items. Either all pass and all are applied, or none is applied and each reports its
reason.
"""

from __future__ import annotations

from typing import Final

from holdfast.core.errors import (
    CancellationReason,
    ConditionFailed,
    EmptyKeyValue,
    IdempotencyMismatch,
    InvalidRequest,
    TransactionCancelled,
)
from holdfast.core.limits import MAX_TRANSACTION_BYTES, TRANSACTION_TOKEN_LIFETIME_S
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
from holdfast.stores.tables.embedded.plan.change import Change, StoredItem
from holdfast.stores.tables.embedded.plan.fingerprints import (
    compute_fingerprint,
    compute_former_fingerprint,
)
from holdfast.stores.tables.embedded.storage import tokens
from holdfast.stores.tables.embedded.storage.reader import Reader, read_item_in_snapshot
from holdfast.stores.tables.embedded.storage.writer import Writer
from holdfast.stores.tables.embedded.table import KeyBytes, Table
from holdfast.stores.tables.embedded.validate.keys import validate_item_key, validate_key
from holdfast.stores.tables.embedded.validate.updates import check_nested_paths, check_update

ONE_ITEM_TWICE: Final = "Transaction request cannot include multiple operations on one item"
DIFFERENT_REQUEST: Final = (
    "An error occurred (IdempotentParameterMismatchException): The provided client token is already in use"
    " with different request parameters"
)
TRANSACTION_FACTOR: Final = 2.0


def transact_write_items(operation: TransactWriteItems, writer: Writer) -> TransactWriteItemsResult:
    """Apply all actions, or raise `TransactionCancelled` with a reason per action."""
    if operation.token is not None and _is_repeat(operation, operation.token, writer):
        return _build_repeat_result(operation, writer)
    planned = [
        (action, *_validate_or_cancel(action, position, len(operation.actions), writer))
        for position, action in enumerate(operation.actions)
    ]
    _check_distinct([(table.number, key_bytes) for _, table, key_bytes in planned])
    olds = [writer.read(table, key_bytes) for _, table, key_bytes in planned]
    changes = _plan_changes(planned, olds)
    if sum(change.new_size for change in changes if change) > MAX_TRANSACTION_BYTES:
        raise InvalidRequest("Transaction size has exceeded the maximum allowed size")
    for change in changes:
        if change is not None:
            writer.apply(change)
    if operation.capacity == "NONE":
        return TransactWriteItemsResult()
    consumed = [
        capacity.measure_change(
            change, table.name, factor=TRANSACTION_FACTOR, checked_bytes=old.size if old else 0
        )
        for change, (_, table, _), old in zip(changes, planned, olds, strict=True)
    ]
    return TransactWriteItemsResult(capacity.sum_by_table(consumed, transactional=True))


def _is_repeat(operation: TransactWriteItems, token: str, writer: Writer) -> bool:
    """Return whether the token was used for this request before; otherwise store it.

    Raise `IdempotencyMismatch` if the token was used for another request.
    """
    fingerprint = operation.fingerprint or compute_fingerprint(operation)
    known = tokens.find(writer.connection, token, writer.now - TRANSACTION_TOKEN_LIFETIME_S)
    if known is None:
        tokens.save(writer.connection, token, fingerprint, writer.now)
        return False
    if known != fingerprint and (operation.fingerprint or known != compute_former_fingerprint(operation)):
        raise IdempotencyMismatch(DIFFERENT_REQUEST)
    return True


def _build_repeat_result(operation: TransactWriteItems, writer: Writer) -> TransactWriteItemsResult:
    """Return the result of a repeated transaction: no effect, billed as a read of its items."""
    if operation.capacity == "NONE":
        return TransactWriteItemsResult()
    consumed = []
    for action in operation.actions:
        table, key_bytes = _validate_action(action, writer)
        stored = writer.read(table, key_bytes)
        units = capacity.count_read_units(stored.size if stored else 0, consistent=True)
        consumed.append(ConsumedCapacity(table.name, Units(read=units * TRANSACTION_FACTOR)))
    return TransactWriteItemsResult(capacity.sum_by_table(consumed, transactional=True))


def _validate_or_cancel(
    action: TransactWrite, position: int, count: int, writer: Writer
) -> tuple[Table, KeyBytes]:
    """Return the action's table and key bytes.

    Raise `TransactionCancelled` with the reason at its `position`.
    """
    try:
        return _validate_action(action, writer)
    except EmptyKeyValue:
        raise
    except InvalidRequest as refusal:
        raise _build_cancellation(position, count, refusal) from None


def _build_cancellation(position: int, count: int, refusal: InvalidRequest) -> TransactionCancelled:
    """Build the cancellation for an action that does not fit its table. Later actions are not checked."""
    reasons = [CancellationReason() for _ in range(count)]
    reasons[position] = CancellationReason("ValidationError", refusal.message)
    return TransactionCancelled(reasons)


def _validate_action(action: TransactWrite, writer: Writer) -> tuple[Table, KeyBytes]:
    """Return the action's table and key bytes, or raise `InvalidRequest`."""
    table = writer.get_table(action.table)
    if isinstance(action, PutItem):
        return table, validate_item_key(table, action.item)
    key_bytes = validate_key(table, action.key)
    if isinstance(action, UpdateItem) and action.update is not None:
        check_update(table, action.update)
    return table, key_bytes


def _check_distinct(keys: list[tuple[int, KeyBytes]]) -> None:
    """Raise `InvalidRequest` if a key, with its table's number, occurs twice."""
    if len(set(keys)) != len(keys):
        raise InvalidRequest(ONE_ITEM_TWICE)


def _plan_changes(
    planned: list[tuple[TransactWrite, Table, KeyBytes]], olds: list[StoredItem | None]
) -> list[Change | None]:
    """Plan the change of every action, or raise `TransactionCancelled` with a reason per action."""
    reasons: list[CancellationReason] = []
    changes: list[Change | None] = []
    for (action, table, key_bytes), old in zip(planned, olds, strict=True):
        try:
            changes.append(_plan_change(action, table, key_bytes, old))
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


def _plan_change(
    action: TransactWrite, table: Table, key_bytes: KeyBytes, old: StoredItem | None
) -> Change | None:
    """Check the action's condition and plan its change; None if it changes nothing."""
    writes.require_condition(action.condition, old, action.returns_on_failure)
    match action:
        case PutItem():
            return writes.plan_put(table, key_bytes, old, action.item)
        case UpdateItem():
            return writes.plan_update(table, key_bytes, old, action)
        case DeleteItem():
            return writes.plan_delete(table, key_bytes, old)
        case ConditionCheck():
            return None


def transact_get_items(operation: TransactGetItems, reader: Reader) -> TransactGetItemsResult:
    """Read all items from one state: the reader's connection is in a snapshot.

    Raise `TransactionCancelled` for a key that does not fit its table, `InvalidRequest` if the items have
    more than 4 MB together or one is requested twice.
    """
    planned: list[tuple[Table, KeyBytes]] = []
    for number, get in enumerate(operation.gets):
        table = reader.get_table(get.table)
        try:
            planned.append((table, validate_key(table, get.key)))
        except EmptyKeyValue:
            raise
        except InvalidRequest as refusal:
            raise _build_cancellation(number, len(operation.gets), refusal) from None
        if get.projection is not None:
            check_nested_paths(table, get.projection)
    _check_distinct([(table.number, key_bytes) for table, key_bytes in planned])
    items: list[Item | None] = []
    consumed: list[ConsumedCapacity] = []
    size_bytes = 0
    for get, (table, key_bytes) in zip(operation.gets, planned, strict=True):
        item, size = read_item_in_snapshot(reader, table, key_bytes)
        size_bytes += size
        units = capacity.count_read_units(size, consistent=True) * TRANSACTION_FACTOR
        consumed.append(ConsumedCapacity(table.name, Units(read=units)))
        items.append(item if item is None or get.projection is None else project(get.projection, item))
    if size_bytes > MAX_TRANSACTION_BYTES:
        raise InvalidRequest("Transaction size has exceeded the maximum allowed size")
    return TransactGetItemsResult(
        tuple(items),
        () if operation.capacity == "NONE" else capacity.sum_by_table(consumed, transactional=True),
    )
