"""UpdateTable: change the settings of an existing table."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from holdfast.operations.tables.operation import Operation
from holdfast.operations.tables.schema import (
    BillingMode,
    IndexDefinition,
    KeyAttribute,
    StreamView,
    TableClass,
    TableDescription,
    Throughput,
)


class CreateIndex(msgspec.Struct, frozen=True, tag="CreateIndex"):
    """Add a global index to the table."""

    index: IndexDefinition


class UpdateIndex(msgspec.Struct, frozen=True, tag="UpdateIndex"):
    """Change the throughput of a global index."""

    name: str
    throughput: Throughput


class DeleteIndex(msgspec.Struct, frozen=True, tag="DeleteIndex"):
    """Remove a global index from the table."""

    name: str


IndexChange: TypeAlias = CreateIndex | UpdateIndex | DeleteIndex
"""One change of a table's global indexes."""


class StreamChange(msgspec.Struct, frozen=True):
    """Enable the stream with a view type, or disable it with None."""

    view: StreamView | None


class UpdateTable(Operation[TableDescription], frozen=True):
    """The settings to change. None keeps the current one."""

    table: str
    attributes: tuple[KeyAttribute, ...] = ()
    billing_mode: BillingMode | None = None
    throughput: Throughput | None = None
    index_changes: tuple[IndexChange, ...] = ()
    stream: StreamChange | None = None
    table_class: TableClass | None = None
    deletion_protection: bool | None = None
