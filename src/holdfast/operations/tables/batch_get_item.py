"""BatchGetItem: read up to a hundred items by their keys, from several tables."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.operations.expressions.nodes import Projection
from holdfast.operations.tables.capacity import ConsumedCapacity
from holdfast.operations.tables.operation import ItemOperation
from holdfast.operations.values import Item


class KeysOfTable(msgspec.Struct, frozen=True):
    """The keys to read from one table. `wording` is the projection as the client wrote it in the wire
    request.
    """

    table: str
    keys: tuple[Item, ...]
    consistent: bool = False
    projection: Projection | None = None
    wording: dict[str, Any] | None = None


class BatchGetItemResult(msgspec.Struct, frozen=True):
    """The items read. `unprocessed` holds each request with keys that were not read: retry these."""

    items: dict[str, list[Item]]
    unprocessed: tuple[KeysOfTable, ...] = ()
    capacity: tuple[ConsumedCapacity, ...] = ()


class BatchGetItem(ItemOperation[BatchGetItemResult], frozen=True):
    requests: tuple[KeysOfTable, ...]
    hide_expired: bool = False
