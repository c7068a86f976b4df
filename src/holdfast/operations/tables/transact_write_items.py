"""TransactWriteItems: up to a hundred writes and checks, all or nothing."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from holdfast.operations.expressions.nodes import Condition
from holdfast.operations.tables.capacity import ConsumedCapacity
from holdfast.operations.tables.delete_item import DeleteItem
from holdfast.operations.tables.operation import ItemOperation
from holdfast.operations.tables.put_item import PutItem
from holdfast.operations.tables.update_item import UpdateItem
from holdfast.operations.tables.write import OldValues
from holdfast.operations.values import Item


class ConditionCheck(msgspec.Struct, frozen=True):
    """An item that must be as stated for the others to happen."""

    table: str
    key: Item
    condition: Condition
    returns_on_failure: OldValues = "NONE"


TransactWrite: TypeAlias = PutItem | UpdateItem | DeleteItem | ConditionCheck


class TransactWriteItemsResult(msgspec.Struct, frozen=True):
    capacity: tuple[ConsumedCapacity, ...] = ()


class TransactWriteItems(ItemOperation[TransactWriteItemsResult], frozen=True):
    """`token` makes a repeat within ten minutes a success without a second effect; `fingerprint` is what the
    repeat must equal, made from the actions where it is not given: one token with different contents is
    refused.
    """

    actions: tuple[TransactWrite, ...]
    token: str | None = None
    fingerprint: bytes = b""
