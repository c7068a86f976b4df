"""DeleteTable: delete a table and its items."""

from __future__ import annotations

from holdfast.operations.tables.operation import Operation
from holdfast.operations.tables.schema import TableDescription


class DeleteTable(Operation[TableDescription], frozen=True):
    """Delete a table and its items."""

    table: str
