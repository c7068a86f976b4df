"""The types that single-item writes share: their return values and their result."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from holdfast.operations.tables.capacity import ConsumedCapacity
from holdfast.operations.values import Item

ReturnOldValues: TypeAlias = Literal["NONE", "ALL_OLD"]
"""Which attributes a put or a delete returns."""
ReturnValues: TypeAlias = Literal["NONE", "ALL_OLD", "UPDATED_OLD", "ALL_NEW", "UPDATED_NEW"]
"""Which attributes an update returns."""


class WriteResult(msgspec.Struct, frozen=True):
    """The result of a write. `attributes` is None if none were requested or there were none to return."""

    attributes: Item | None = None
    capacity: ConsumedCapacity | None = None
