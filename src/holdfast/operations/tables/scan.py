"""Scan: every item of a table or index, a page at a time, whole or in parallel segments."""

from __future__ import annotations

from holdfast.operations.expressions.nodes import Condition, Projection
from holdfast.operations.tables.operation import ItemOperation
from holdfast.operations.tables.page import PageResult, Select
from holdfast.operations.values import Item


class Scan(ItemOperation[PageResult], frozen=True):
    """`segment` of `segments`: each segment is walked on its own, and together they are the whole."""

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
