"""DeleteItem: delete the item with a key; an absent item is not an error."""

from __future__ import annotations

from holdfast.operations.expressions.nodes import Condition
from holdfast.operations.tables.operation import ItemOperation
from holdfast.operations.tables.write import ReturnOldValues, WriteResult
from holdfast.operations.values import Item


class DeleteItem(ItemOperation[WriteResult], frozen=True):
    """Delete the item with a key; an absent item is not an error."""

    table: str
    key: Item
    condition: Condition | None = None
    returns: ReturnOldValues = "NONE"
    returns_on_failure: ReturnOldValues = "NONE"
