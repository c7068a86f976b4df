"""Handlers of Create-, Describe- and DeleteTable, ListTables and DescribeLimits in the embedded engine."""

from __future__ import annotations

import msgspec

from holdfast.core.errors import AlreadyExists, InvalidRequest, LimitExceeded, NotFound
from holdfast.core.limits import MAX_ACCOUNT_UNITS, MAX_TABLE_UNITS, MAX_TABLES
from holdfast.core.rng import make_uuid
from holdfast.operations.tables import (
    CreateTable,
    DeleteTable,
    DescribeLimits,
    DescribeLimitsResult,
    DescribeTable,
    ListTables,
    ListTablesResult,
    TableDefinition,
    TableDescription,
)
from holdfast.stores.tables.embedded.descriptions import build_description
from holdfast.stores.tables.embedded.handlers import stream_lifecycle
from holdfast.stores.tables.embedded.handlers.backup_copies import keep_system_backup
from holdfast.stores.tables.embedded.records import DropJob, IndexRecord, TableRecord
from holdfast.stores.tables.embedded.storage import catalog, counts, jobs
from holdfast.stores.tables.embedded.storage.catalog import Catalog
from holdfast.stores.tables.embedded.storage.reader import Reader
from holdfast.stores.tables.embedded.storage.writer import Writer
from holdfast.stores.tables.embedded.table import Table


def create_table(operation: CreateTable, writer: Writer) -> TableDescription:
    """Create a table, usable once this is committed. The result says CREATING, as the service's does."""
    known = writer.catalog.tables
    definition = operation.definition
    if definition.name in known:
        raise AlreadyExists(f"Table already exists: {definition.name}")
    if len(known) >= MAX_TABLES:
        raise LimitExceeded(f"Subscriber limit exceeded: Only {MAX_TABLES} tables can exist at a time")
    record = build_record(catalog.allocate_number(writer.connection), definition, writer.now)
    if definition.stream_view is not None:
        record = stream_lifecycle.open_stream(record, definition.stream_view, writer)
    catalog.insert_table(writer, record)
    return build_description(mark_creating(record), {}, writer.now)


def build_record(number: int, definition: TableDefinition, now: float) -> TableRecord:
    """Build the record of a new table; `number` names its rows in the file.

    Every index gets a slot from 1 on.
    """
    names = [index.name for index in definition.global_indexes + definition.local_indexes]
    return TableRecord(
        number,
        str(make_uuid()),
        definition,
        now,
        indexes={name: IndexRecord(slot) for slot, name in enumerate(names, 1)},
        next_slot=len(names) + 1,
        billing_changed_at=now if definition.billing_mode == "PAY_PER_REQUEST" else None,
    )


def mark_creating(record: TableRecord) -> TableRecord:
    """Return the record with status CREATING, for the result of a creation."""
    states = {
        name: msgspec.structs.replace(index, status="CREATING") for name, index in record.indexes.items()
    }
    return msgspec.structs.replace(record, status="CREATING", indexes=states)


def describe_table(operation: DescribeTable, reader: Reader) -> TableDescription:
    """Return the table's description in any state. Raise `NotFound` without it."""
    table = require_table(reader.catalog, operation.table)
    return build_description(table.record, counts.read_counts(reader.connection, table.number), reader.now)


def require_table(from_catalog: Catalog, name: str) -> Table:
    """Return the table in any state. Raise `NotFound`, with the table's name, without one."""
    table = from_catalog.tables.get(name)
    if table is None:
        raise NotFound(f"Requested resource not found: Table: {name} not found")
    return table


def require_active_table(from_catalog: Catalog, name: str) -> Table:
    """Return the table. Raise `AlreadyExists`, as DynamoDB does, while it is being restored."""
    table = require_table(from_catalog, name)
    if table.record.status == "CREATING":
        raise AlreadyExists(
            f"Attempt to change a resource which is still in use: Table is being created: {name}"
        )
    return table


def list_tables(operation: ListTables, reader: Reader) -> ListTablesResult:
    """Return one page of table names, sorted."""
    names = sorted(reader.catalog.tables)
    if operation.after is not None:
        names = [name for name in names if name > operation.after]
    page = tuple(names[: operation.limit])
    return ListTablesResult(page, page[-1] if len(names) > len(page) else None)


def delete_table(operation: DeleteTable, writer: Writer) -> TableDescription:
    """Delete a table for every caller at once. A job deletes its rows in small steps afterwards."""
    table = require_table(writer.catalog, operation.table)
    record = table.record
    if record.status in ("CREATING", "UPDATING"):
        raise AlreadyExists(
            "Attempt to change a resource which is still in use: Table is being"
            f" {'created' if record.status == 'CREATING' else 'updated'}: {operation.table}"
        )
    if record.definition.deletion_protection:
        raise InvalidRequest(
            "Resource cannot be deleted as it is currently protected against deletion."
            " Disable deletion protection first."
        )
    last = build_description(
        msgspec.structs.replace(record, status="DELETING"),
        writer.read_counts(table.number),
        writer.now,
    )
    if record.stream_label is not None:
        stream_lifecycle.close_stream(record, writer)
    if record.recovery_since is not None:
        keep_system_backup(table, writer)
    else:
        jobs.add(writer.connection, DropJob(table.number))
    catalog.remove_table(writer, table.number)
    return last


def describe_limits(operation: DescribeLimits, reader: Reader) -> DescribeLimitsResult:
    """Return DynamoDB's default limits; the engine itself has none."""
    return DescribeLimitsResult(MAX_ACCOUNT_UNITS, MAX_ACCOUNT_UNITS, MAX_TABLE_UNITS, MAX_TABLE_UNITS)
