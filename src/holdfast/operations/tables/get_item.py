"""GetItem: one item by its key."""

from __future__ import annotations

import msgspec

from holdfast.operations.expressions.nodes import Projection
from holdfast.operations.tables.capacity import ConsumedCapacity
from holdfast.operations.tables.operation import ItemOperation
from holdfast.operations.values import Item


class GetItemResult(msgspec.Struct, frozen=True):
    item: Item | None
    capacity: ConsumedCapacity | None = None


class GetItem(ItemOperation[GetItemResult], frozen=True):
    """`hide_expired` is ours: an item whose lifetime is over but not yet reaped reads as absent."""

    table: str
    key: Item
    consistent: bool = False
    projection: Projection | None = None
    hide_expired: bool = False
