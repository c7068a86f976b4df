"""PutItem: write a whole item, replacing any item with the same key."""

from __future__ import annotations

from holdfast.operations.expressions.nodes import Condition
from holdfast.operations.tables.operation import ItemOperation
from holdfast.operations.tables.write import ReturnOldValues, WriteResult
from holdfast.operations.values import Item


class PutItem(ItemOperation[WriteResult], frozen=True):
    """Write a whole item, replacing any item with the same key."""

    table: str
    item: Item
    condition: Condition | None = None
    returns: ReturnOldValues = "NONE"
    returns_on_failure: ReturnOldValues = "NONE"
