"""Scan: read every item of a table or index, one page at a time, as a whole or in parallel segments."""

from __future__ import annotations

from holdfast.operations.expressions.nodes import Condition, Projection
from holdfast.operations.tables.operation import ItemOperation
from holdfast.operations.tables.page import PageResult, Select
from holdfast.operations.values import Item


class Scan(ItemOperation[PageResult], frozen=True):
    """Read every item, or one `segment` of `segments`. The segments are disjoint and together cover the
    table.
    """

    table: str
    index: str | None = None
    filter: Condition | None = None
    projection: Projection | None = None
    select: Select | None = None
    limit: int | None = None
    start_key: Item | None = None
    consistent: bool = False
    segment: int | None = None
    segments: int | None = None
    hide_expired: bool = False
