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
    table: str
    item: Item


class Delete(msgspec.Struct, frozen=True):
    table: str
    key: Item


BatchWrite: TypeAlias = Put | Delete


class BatchWriteItemResult(msgspec.Struct, frozen=True):
    """The writes that were not made (`unprocessed`: retry these) and the capacity consumed."""

    unprocessed: tuple[BatchWrite, ...] = ()
    capacity: tuple[ConsumedCapacity, ...] = ()


class BatchWriteItem(ItemOperation[BatchWriteItemResult], frozen=True):
    writes: tuple[BatchWrite, ...]
