"""BatchWriteItem: up to 25 puts and deletes without conditions. Each is independent; batching saves round
trips.
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
    unprocessed: tuple[BatchWrite, ...] = ()
    capacity: tuple[ConsumedCapacity, ...] = ()


class BatchWriteItem(ItemOperation[BatchWriteItemResult], frozen=True):
    writes: tuple[BatchWrite, ...]
