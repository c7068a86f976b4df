"""One write of one item: check the condition, build the new item, decide the change.

Each function takes the current item and returns the `Change`, or raises the error that DynamoDB would return.
"""

from __future__ import annotations

from holdfast.core.errors import ConditionFailed, InvalidRequest
from holdfast.core.limits import ITEM_BYTES_MAX, NESTING_CONTAINERS_MAX
from holdfast.operations.expressions import apply, holds, touched, updated_values
from holdfast.operations.expressions.nodes import Condition
from holdfast.operations.tables import OldValues, UpdateItem
from holdfast.operations.values import Item, item_size, nesting
from holdfast.stores.tables.embedded.plan.change import Change, Stored, removal, replacement
from holdfast.stores.tables.embedded.table import Place, Table
from holdfast.stores.tables.embedded.validate.updates import check_updated_index_keys


def put(table: Table, place: Place, old: Stored | None, item: Item) -> Change:
    size = item_size(item)
    if size > ITEM_BYTES_MAX:
        raise InvalidRequest("Item size has exceeded the maximum allowed size")
    _check_nesting(item)
    return replacement(table, place, old, item, size)


def update(table: Table, place: Place, old: Stored | None, operation: UpdateItem) -> Change | None:
    """Build the change of an update. An update of a missing item starts from its key, and creates the item
    even if it sets nothing else.

    Only an update that just removes from a missing item creates nothing, wherever in the item its paths
    point.
    """
    before = old.item if old else None
    if operation.update is None:
        item = before if before is not None else dict(operation.key)
    else:
        if old is None and not operation.update.sets and not operation.update.adds:
            return None
        item = apply(operation.update, before, operation.key)
        check_updated_index_keys(table, operation.update, item)
    size = item_size(item)
    if size > ITEM_BYTES_MAX:
        raise InvalidRequest("Item size to update has exceeded the maximum allowed size")
    if operation.update is not None:
        _check_nesting(item)
    return replacement(table, place, old, item, size)


def _check_nesting(item: Item) -> None:
    if nesting(item) > NESTING_CONTAINERS_MAX:
        raise InvalidRequest(
            "Nesting Levels have exceeded supported limits: Attributes in the item have nested levels beyond"
            " supported limit"
        )


def delete(table: Table, place: Place, old: Stored | None) -> Change | None:
    return None if old is None else removal(table, place, old)


def require(condition: Condition | None, old: Stored | None, returns: OldValues) -> None:
    """Raise unless the condition holds. The error includes the current item if the operation asks for it."""
    if condition is not None and not holds(condition, old.item if old else None):
        raise ConditionFailed(item=old.item if old and returns == "ALL_OLD" else None)


def returned(operation: UpdateItem, change: Change | None) -> Item | None:
    """Return the item or attributes that an update's result includes."""
    if change is None:
        return None
    old = change.old.item if change.old else None
    if operation.returns == "ALL_OLD":
        return old
    if operation.returns == "ALL_NEW":
        return change.new
    if operation.returns == "NONE" or operation.update is None:
        return None
    shown = old if operation.returns == "UPDATED_OLD" else change.new
    return None if shown is None else updated_values(touched(operation.update), shown) or None
