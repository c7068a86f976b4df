"""The tables, SQL tables and buckets of the systems, with the counts that their stores keep.

Nothing is counted here: a store that keeps no count has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.console.browser.sql_rows import SqlTable, list_sql_tables
from holdfast.core.concurrency import gather_or_cancel
from holdfast.core.errors import HoldfastError, NotFound, format_message
from holdfast.model.objects import Bucket
from holdfast.model.sql import Schema
from holdfast.model.system import System
from holdfast.model.tables import Table
from holdfast.operations.tables import DescribeTable, IndexState, TableDescription
from holdfast.runtime.stores import Stores

__all__ = [
    "SchemaEntry",
    "SystemData",
    "TableEntry",
    "describe",
    "find_bucket",
    "find_schema",
    "load_system_data",
]


@dataclass(frozen=True)
class TableEntry:
    """A declared table, and what its store says about it; None if it does not exist, with the reason."""

    table: Table
    physical: str
    description: TableDescription | None
    problem: str = ""

    def get_index_state(self, name: str) -> IndexState | None:
        """Return the state of an index in the store; None if it was not created."""
        if self.description is None:
            return None
        return (self.description.global_indexes | self.description.local_indexes).get(name)


@dataclass(frozen=True)
class SchemaEntry:
    """A SQL schema with its tables; a store that does not answer has a problem instead."""

    schema: Schema
    tables: Sequence[SqlTable] = ()
    problem: str = ""


@dataclass(frozen=True)
class SystemData:
    """Everything that a system stores."""

    system: System
    tables: Sequence[TableEntry]
    schemas: Sequence[SchemaEntry] = ()
    buckets: Sequence[Bucket] = field(default=())


async def load_system_data(stores: Stores) -> SystemData:
    """Return what a system stores. A store that fails is reported and hides no other."""
    system = stores.system
    assert system is not None
    tables = await gather_or_cancel(describe(stores, each) for each in system.tables)
    schemas = [await _describe_schema(stores, each) for each in system.schemas]
    return SystemData(system, tables, schemas, tuple(system.buckets))


async def describe(stores: Stores, table: Table) -> TableEntry:
    """Return a table with its stored counts."""
    physical = stores.physical_name(table)
    try:
        return TableEntry(table, physical, await stores.tables.run(DescribeTable(physical)))
    except NotFound:
        return TableEntry(table, physical, None)
    except HoldfastError as error:
        return TableEntry(table, physical, None, format_message(error))


def find_schema(system: System, name: str) -> Schema:
    """Return a schema by name. Raise `NotFound` if the system has none of that name."""
    found: Schema = _find(system, "SQL schema", system.schemas, name)
    return found


def find_bucket(system: System, name: str) -> Bucket:
    """Return a bucket by its logical name. Raise `NotFound` if the system has none of that name."""
    found: Bucket = _find(system, "bucket", system.buckets, name)
    return found


def _find(system: System, what: str, entries: Sequence[Any], name: str) -> Any:
    for each in entries:
        if each.name == name:
            return each
    known = ", ".join(each.name for each in entries)
    raise NotFound(f"{system.name} has no {what} {name!r}: it has {known or 'none'}.")


async def _describe_schema(stores: Stores, schema: Schema) -> SchemaEntry:
    try:
        return SchemaEntry(schema, await list_sql_tables(stores, schema))
    except HoldfastError as error:
        return SchemaEntry(schema, problem=format_message(error))
