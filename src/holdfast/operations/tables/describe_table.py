"""DescribeTable: return the current description of a table."""

from __future__ import annotations

from holdfast.operations.tables.operation import Operation
from holdfast.operations.tables.schema import TableDescription


class DescribeTable(Operation[TableDescription], frozen=True):
    """Return the current description of a table."""

    table: str
