"""Planning of writes: check the condition, build the new item, decide the change of one item.

Each function takes the current item and returns the `Change`, or raises the error that DynamoDB would return.
"""

from __future__ import annotations

from holdfast.core.errors import ConditionFailed, InvalidRequest
from holdfast.core.limits import MAX_ITEM_BYTES, MAX_NESTING_CONTAINERS
from holdfast.operations.expressions import (
    apply_update,
    evaluate_condition,
    get_written_paths,
    select_written_values,
)
from holdfast.operations.expressions.nodes import Condition
from holdfast.operations.tables import ReturnOldValues, UpdateItem
from holdfast.operations.values import Item, get_nesting_depth, item_size
from holdfast.stores.tables.embedded.plan.change import Change, StoredItem, build_removal, build_replacement
from holdfast.stores.tables.embedded.table import KeyBytes, Table
from holdfast.stores.tables.embedded.validate.updates import check_updated_index_keys


def plan_put(table: Table, key_bytes: KeyBytes, old: StoredItem | None, item: Item) -> Change:
    """Build the change of a put. Raise `InvalidRequest` if the item is too large or too deeply nested."""
    size = item_size(item)
    if size > MAX_ITEM_BYTES:
        raise InvalidRequest("Item size has exceeded the maximum allowed size")
    _check_nesting(item)
    return build_replacement(table, key_bytes, old, item, size)


def plan_update(
    table: Table, key_bytes: KeyBytes, old: StoredItem | None, operation: UpdateItem
) -> Change | None:
    """Build the change of an update.

    An update of a missing item starts from its key, and creates the item even if it sets nothing else. Only
    an update that just removes from a missing item creates nothing, wherever in the item its paths point.
    """
    before = old.item if old else None
    if operation.update is None:
        item = before if before is not None else dict(operation.key)
    else:
        if old is None and not operation.update.sets and not operation.update.adds:
            return None
        item = apply_update(operation.update, before, operation.key)
        check_updated_index_keys(table, operation.update, item)
    size = item_size(item)
    if size > MAX_ITEM_BYTES:
        raise InvalidRequest("Item size to update has exceeded the maximum allowed size")
    if operation.update is not None:
        _check_nesting(item)
    return build_replacement(table, key_bytes, old, item, size)


def _check_nesting(item: Item) -> None:
    """Raise `InvalidRequest` if the item is nested deeper than DynamoDB allows."""
    if get_nesting_depth(item) > MAX_NESTING_CONTAINERS:
        raise InvalidRequest(
            "Nesting Levels have exceeded supported limits: Attributes in the item have nested levels beyond"
            " supported limit"
        )


def plan_delete(table: Table, key_bytes: KeyBytes, old: StoredItem | None) -> Change | None:
    """Build the change of a delete, or return None if the item does not exist."""
    return None if old is None else build_removal(table, key_bytes, old)


def require_condition(condition: Condition | None, old: StoredItem | None, returns: ReturnOldValues) -> None:
    """Raise `ConditionFailed` unless the condition holds.

    The error has the current item if `returns` is ALL_OLD.
    """
    if condition is not None and not evaluate_condition(condition, old.item if old else None):
        raise ConditionFailed(item=old.item if old and returns == "ALL_OLD" else None)


def select_returned_values(operation: UpdateItem, change: Change | None) -> Item | None:
    """Return the item or the attributes that the result of an update includes."""
    if change is None:
        return None
    old = change.old.item if change.old else None
    if operation.returns == "ALL_OLD":
        return old
    if operation.returns == "ALL_NEW":
        return change.new
    if operation.returns == "NONE" or operation.update is None:
        return None
    item = old if operation.returns == "UPDATED_OLD" else change.new
    return None if item is None else select_written_values(get_written_paths(operation.update), item) or None
