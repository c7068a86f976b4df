"""BatchGetItem: read up to a hundred items by their keys, from several tables."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.operations.expressions.nodes import Projection
from holdfast.operations.tables.capacity import ConsumedCapacity
from holdfast.operations.tables.operation import ItemOperation
from holdfast.operations.values import Item


class KeysAndAttributes(msgspec.Struct, frozen=True):
    """The keys to read from one table. `raw_expressions` is the projection as the client wrote it in the wire
    request.
    """

    table: str
    keys: tuple[Item, ...]
    consistent: bool = False
    projection: Projection | None = None
    raw_expressions: dict[str, Any] | None = None


class BatchGetItemResult(msgspec.Struct, frozen=True):
    """The items read, by table. `unprocessed` holds the keys that were not read, as requests to retry."""

    items: dict[str, list[Item]]
    unprocessed: tuple[KeysAndAttributes, ...] = ()
    capacity: tuple[ConsumedCapacity, ...] = ()


class BatchGetItem(ItemOperation[BatchGetItemResult], frozen=True):
    """Read up to a hundred items by their keys. `hide_expired` treats an expired item as absent."""

    requests: tuple[KeysAndAttributes, ...]
    hide_expired: bool = False
