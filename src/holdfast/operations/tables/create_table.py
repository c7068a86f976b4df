"""CreateTable: create a table."""

from __future__ import annotations

from holdfast.operations.tables.operation import Operation
from holdfast.operations.tables.schema import TableDefinition, TableDescription


class CreateTable(Operation[TableDescription], frozen=True):
    definition: TableDefinition
