"""TransactWriteItems: up to a hundred writes and condition checks, all or nothing."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from holdfast.operations.expressions.nodes import Condition
from holdfast.operations.tables.capacity import ConsumedCapacity
from holdfast.operations.tables.delete_item import DeleteItem
from holdfast.operations.tables.operation import ItemOperation
from holdfast.operations.tables.put_item import PutItem
from holdfast.operations.tables.update_item import UpdateItem
from holdfast.operations.tables.write import ReturnOldValues
from holdfast.operations.values import Item


class ConditionCheck(msgspec.Struct, frozen=True):
    """A condition on an item that the transaction does not write. If it fails, nothing is written."""

    table: str
    key: Item
    condition: Condition
    returns_on_failure: ReturnOldValues = "NONE"


TransactWrite: TypeAlias = PutItem | UpdateItem | DeleteItem | ConditionCheck
"""One action of a transaction."""


class TransactWriteItemsResult(msgspec.Struct, frozen=True):
    """The capacity that the transaction consumed."""

    capacity: tuple[ConsumedCapacity, ...] = ()


class TransactWriteItems(ItemOperation[TransactWriteItemsResult], frozen=True):
    """Write all actions or none. A repeat with the same `token` within ten minutes succeeds without a second
    effect.

    `fingerprint` is the content that a repeat must match, derived from the actions if not given: reusing a
    token with different content is an error.
    """

    actions: tuple[TransactWrite, ...]
    token: str | None = None
    fingerprint: bytes = b""
