"""BatchWriteItem: write up to 25 puts and deletes without conditions, each independent of the others.

Batching saves round trips; it gives no atomicity.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from holdfast.operations.tables.capacity import ConsumedCapacity
from holdfast.operations.tables.operation import ItemOperation
from holdfast.operations.values import Item


class Put(msgspec.Struct, frozen=True):
    """Write an item, as part of a batch."""

    table: str
    item: Item


class Delete(msgspec.Struct, frozen=True):
    """Delete the item with a key, as part of a batch."""

    table: str
    key: Item


BatchWrite: TypeAlias = Put | Delete
"""One write of a batch."""


class BatchWriteItemResult(msgspec.Struct, frozen=True):
    """The writes that were not made (`unprocessed`: retry these) and the capacity consumed."""

    unprocessed: tuple[BatchWrite, ...] = ()
    capacity: tuple[ConsumedCapacity, ...] = ()


class BatchWriteItem(ItemOperation[BatchWriteItemResult], frozen=True):
    """Write up to 25 puts and deletes, each independent of the others."""

    writes: tuple[BatchWrite, ...]
