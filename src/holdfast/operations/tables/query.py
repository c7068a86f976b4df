"""Query: read the items of one partition, in sort key order, one page at a time."""

from __future__ import annotations

from holdfast.operations.expressions.key_conditions import KeyCondition
from holdfast.operations.expressions.nodes import Condition, Projection
from holdfast.operations.tables.operation import ItemOperation
from holdfast.operations.tables.page import PageResult, Select
from holdfast.operations.values import Item


class Query(ItemOperation[PageResult], frozen=True):
    """Read one page of a partition. `filter` applies after `limit`; `start_key` is the previous page's
    `last_key`.
    """

    table: str
    key_condition: KeyCondition
    index: str | None = None
    filter: Condition | None = None
    projection: Projection | None = None
    select: Select | None = None
    forward: bool = True
    limit: int | None = None
    start_key: Item | None = None
    consistent: bool = False
    hide_expired: bool = False
