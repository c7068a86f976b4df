"""The CreateTable operation: create a table with its keys and indexes."""

from __future__ import annotations

from holdfast.operations.tables.operation import Operation
from holdfast.operations.tables.schema import TableDefinition, TableDescription


class CreateTable(Operation[TableDescription], frozen=True):
    """Create a table with its keys and indexes."""

    definition: TableDefinition
