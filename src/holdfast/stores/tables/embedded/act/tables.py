"""CreateTable, DescribeTable, ListTables, DeleteTable and DescribeLimits."""

from __future__ import annotations

import uuid

import msgspec

from holdfast.core.errors import AlreadyExists, InvalidRequest, LimitExceeded, NotFound
from holdfast.core.limits import ACCOUNT_UNITS_MAX, TABLE_UNITS_MAX, TABLES_MAX
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
from holdfast.stores.tables.embedded.act import streaming
from holdfast.stores.tables.embedded.act.backing_up import keep_system_backup
from holdfast.stores.tables.embedded.describe import description
from holdfast.stores.tables.embedded.records import DropJob, IndexRecord, TableRecord
from holdfast.stores.tables.embedded.storage import catalog, counts, jobs
from holdfast.stores.tables.embedded.storage.catalog import Catalog
from holdfast.stores.tables.embedded.storage.reading import Reading
from holdfast.stores.tables.embedded.storage.writer import Writer
from holdfast.stores.tables.embedded.table import Table


def create_table(operation: CreateTable, writer: Writer) -> TableDescription:
    """Create a table. It is usable once this is committed; the result says CREATING, as the service's
    does.
    """
    known = writer.catalog.tables
    definition = operation.definition
    if definition.name in known:
        raise AlreadyExists(f"Table already exists: {definition.name}")
    if len(known) >= TABLES_MAX:
        raise LimitExceeded(f"Subscriber limit exceeded: Only {TABLES_MAX} tables can exist at a time")
    record = new_record(catalog.next_number(writer.connection), definition, writer.now)
    if definition.stream_view is not None:
        record = streaming.switched_on(record, definition.stream_view, writer)
    catalog.insert_table(writer, record)
    return description(told_as_creating(record), {}, writer.now)


def new_record(number: int, definition: TableDefinition, now: float) -> TableRecord:
    names = [index.name for index in definition.global_indexes + definition.local_indexes]
    return TableRecord(
        number,
        str(uuid.uuid4()),
        definition,
        now,
        indexes={name: IndexRecord(slot) for slot, name in enumerate(names, 1)},
        next_slot=len(names) + 1,
        billing_changed_at=now if definition.billing_mode == "PAY_PER_REQUEST" else None,
    )


def told_as_creating(record: TableRecord) -> TableRecord:
    states = {
        name: msgspec.structs.replace(index, status="CREATING") for name, index in record.indexes.items()
    }
    return msgspec.structs.replace(record, status="CREATING", indexes=states)


def describe_table(operation: DescribeTable, reading: Reading) -> TableDescription:
    table = known_table(reading.catalog, operation.table)
    return description(table.record, counts.of_table(reading.connection, table.number), reading.now)


def known_table(of: Catalog, name: str) -> Table:
    """Return the table in any state. Table operations name the table in their error."""
    table = of.tables.get(name)
    if table is None:
        raise NotFound(f"Requested resource not found: Table: {name} not found")
    return table


def active_table(of: Catalog, name: str) -> Table:
    """Return the table. Raise if it is still being restored."""
    table = known_table(of, name)
    if table.record.status == "CREATING":
        raise AlreadyExists(
            f"Attempt to change a resource which is still in use: Table is being created: {name}"
        )
    return table


def list_tables(operation: ListTables, reading: Reading) -> ListTablesResult:
    names = sorted(reading.catalog.tables)
    if operation.after is not None:
        names = [name for name in names if name > operation.after]
    page = tuple(names[: operation.limit])
    return ListTablesResult(page, page[-1] if len(names) > len(page) else None)


def delete_table(operation: DeleteTable, writer: Writer) -> TableDescription:
    """Delete a table. It is gone at once for every caller; a job drops its rows in small steps afterwards."""
    table = known_table(writer.catalog, operation.table)
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
    last = description(
        msgspec.structs.replace(record, status="DELETING"),
        writer.counts(table.number),
        writer.now,
    )
    if record.stream_label is not None:
        streaming.close(record, writer)
    if record.recovery_since is not None:
        keep_system_backup(table, writer)
    else:
        jobs.add(writer.connection, DropJob(table.number))
    catalog.remove_table(writer, table.number)
    return last


def describe_limits(operation: DescribeLimits, reading: Reading) -> DescribeLimitsResult:
    return DescribeLimitsResult(ACCOUNT_UNITS_MAX, ACCOUNT_UNITS_MAX, TABLE_UNITS_MAX, TABLE_UNITS_MAX)
