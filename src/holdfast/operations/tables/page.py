"""The types that Query and Scan share: the selected attributes, and a page of items."""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from holdfast.operations.tables.capacity import ConsumedCapacity
from holdfast.operations.values import Item

Select: TypeAlias = Literal["ALL_ATTRIBUTES", "ALL_PROJECTED_ATTRIBUTES", "SPECIFIC_ATTRIBUTES", "COUNT"]
"""Which attributes a query or a scan returns."""


class PageResult(msgspec.Struct, frozen=True):
    """One page. `items` is None for a count. `last_key` is the start of the next page, None at the end."""

    items: list[Item] | None
    count: int
    scanned_count: int
    last_key: Item | None = None
    capacity: ConsumedCapacity | None = None
