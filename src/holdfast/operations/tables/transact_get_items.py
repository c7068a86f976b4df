"""TransactGetItems: read up to a hundred items in one consistent snapshot."""

from __future__ import annotations

import msgspec

from holdfast.operations.expressions.nodes import Projection
from holdfast.operations.tables.capacity import ConsumedCapacity
from holdfast.operations.tables.operation import ItemOperation
from holdfast.operations.values import Item


class TransactGet(msgspec.Struct, frozen=True):
    """One item to read."""

    table: str
    key: Item
    projection: Projection | None = None


class TransactGetItemsResult(msgspec.Struct, frozen=True):
    """The items read: one entry per request, None for an absent item."""

    items: tuple[Item | None, ...]
    capacity: tuple[ConsumedCapacity, ...] = ()


class TransactGetItems(ItemOperation[TransactGetItemsResult], frozen=True):
    """Read up to a hundred items in one consistent snapshot."""

    gets: tuple[TransactGet, ...]
