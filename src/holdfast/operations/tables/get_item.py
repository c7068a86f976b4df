"""GetItem: read one item by its key."""

from __future__ import annotations

import msgspec

from holdfast.operations.expressions.nodes import Projection
from holdfast.operations.tables.capacity import ConsumedCapacity
from holdfast.operations.tables.operation import ItemOperation
from holdfast.operations.values import Item


class GetItemResult(msgspec.Struct, frozen=True):
    """The item, or None if it is absent."""

    item: Item | None
    capacity: ConsumedCapacity | None = None


class GetItem(ItemOperation[GetItemResult], frozen=True):
    """Read one item. `hide_expired`, an addition to DynamoDB, treats an expired item not yet deleted as
    absent.
    """

    table: str
    key: Item
    consistent: bool = False
    projection: Projection | None = None
    hide_expired: bool = False
