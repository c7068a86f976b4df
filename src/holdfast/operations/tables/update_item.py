"""UpdateItem: change an item in place, or create it if its key is absent."""

from __future__ import annotations

from holdfast.operations.expressions.nodes import Condition, Update
from holdfast.operations.tables.operation import ItemOperation
from holdfast.operations.tables.write import ReturnOldValues, ReturnValues, WriteResult
from holdfast.operations.values import Item


class UpdateItem(ItemOperation[WriteResult], frozen=True):
    """Change an item in place, or create it if its key is absent."""

    table: str
    key: Item
    update: Update | None = None
    condition: Condition | None = None
    returns: ReturnValues = "NONE"
    returns_on_failure: ReturnOldValues = "NONE"
