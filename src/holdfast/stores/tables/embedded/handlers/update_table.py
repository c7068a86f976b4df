"""The embedded engine's handler of UpdateTable: each kind of change is one function from record to record."""

from __future__ import annotations

import msgspec

from holdfast.core.errors import AlreadyExists, InvalidRequest, LimitExceeded, NotFound
from holdfast.core.limits import MAX_GLOBAL_INDEXES, MAX_INDEX_UNITS
from holdfast.operations.tables import (
    CreateIndex,
    DeleteIndex,
    IndexDefinition,
    KeyAttribute,
    TableDefinition,
    TableDescription,
    Throughput,
    UpdateIndex,
    UpdateTable,
)
from holdfast.stores.tables.embedded.descriptions import build_description, count_decreases_today
from holdfast.stores.tables.embedded.handlers import stream_lifecycle
from holdfast.stores.tables.embedded.handlers.tables import require_table
from holdfast.stores.tables.embedded.records import BackfillJob, DropJob, IndexRecord, TableRecord
from holdfast.stores.tables.embedded.storage import catalog, jobs
from holdfast.stores.tables.embedded.storage.writer import Writer

replace = msgspec.structs.replace


def update_table(operation: UpdateTable, writer: Writer) -> TableDescription:
    """Change a table and return its description, which says UPDATING, as the service's does.

    Raise `AlreadyExists`, as the service does, if the table is not ACTIVE.
    """
    record = former = require_table(writer.catalog, operation.table).record
    if record.status != "ACTIVE":
        raise AlreadyExists(
            f"Attempt to change a resource which is still in use: Table is being updated: {operation.table}"
        )
    record = _update_billing(record, operation, writer)
    if operation.table_class is not None and operation.table_class != (
        record.definition.table_class or "STANDARD"
    ):
        definition = replace(record.definition, table_class=operation.table_class)
        record = replace(record, definition=definition, table_class_changed_at=writer.now)
    if operation.deletion_protection is not None:
        definition = replace(record.definition, deletion_protection=operation.deletion_protection)
        record = replace(record, definition=definition)
    if operation.stream is not None:
        record = _update_stream(record, operation, writer)
    for change in operation.index_changes:
        match change:
            case CreateIndex():
                record = _create_index(record, change.index, operation.attributes, writer)
            case DeleteIndex():
                record = _delete_index(record, change.name, writer)
            case UpdateIndex():
                record = _update_index(record, change)
    catalog.save_table(writer, record)
    reported = replace(_show_former_throughput(record, former, writer.now), status="UPDATING")
    return build_description(reported, writer.read_counts(record.number), writer.now)


def _show_former_throughput(record: TableRecord, former: TableRecord, now: float) -> TableRecord:
    """Return the record with its former throughput, which the service shows while the table is UPDATING."""
    definition, before = record.definition, former.definition
    if definition.billing_mode != before.billing_mode:
        return record
    indexes = {index.name: index.throughput for index in before.global_indexes}
    definition = replace(
        definition,
        throughput=before.throughput,
        global_indexes=tuple(
            replace(index, throughput=indexes.get(index.name, index.throughput))
            for index in definition.global_indexes
        ),
    )
    return replace(record, definition=definition, decreases=count_decreases_today(former, now))


def _update_billing(record: TableRecord, operation: UpdateTable, writer: Writer) -> TableRecord:
    """Return the record with the billing mode and throughput of the operation.

    On-demand tables have no throughput.
    """
    definition, mode, throughput = record.definition, operation.billing_mode, operation.throughput
    if mode is not None and mode != definition.billing_mode:
        definition = replace(definition, billing_mode=mode)
        if mode == "PAY_PER_REQUEST":
            record = replace(record, billing_changed_at=writer.now)
    if definition.billing_mode == "PAY_PER_REQUEST":
        if throughput is not None:
            raise InvalidRequest(
                "One or more parameter values were invalid: Neither ReadCapacityUnits nor WriteCapacityUnits"
                " can be specified when BillingMode is PAY_PER_REQUEST"
            )
        definition = replace(
            definition,
            throughput=Throughput(),
            global_indexes=tuple(replace(index, throughput=None) for index in definition.global_indexes),
        )
    elif throughput is not None:
        record, definition = (
            _update_throughput(record, throughput, writer),
            replace(definition, throughput=throughput),
        )
    if mode == "PROVISIONED":
        _check_every_index_has_throughput(definition, operation)
    return replace(record, definition=definition)


def _check_every_index_has_throughput(definition: TableDefinition, operation: UpdateTable) -> None:
    """Raise `InvalidRequest` if a provisioned table would have a global index without throughput."""
    given = {change.name for change in operation.index_changes if isinstance(change, UpdateIndex)}
    for index in definition.global_indexes:
        if index.throughput is None and index.name not in given:
            raise InvalidRequest(
                "One or more parameter values were invalid: ProvisionedThroughput must be specified for"
                f" index: {index.name}"
            )


def _update_throughput(record: TableRecord, wanted: Throughput, writer: Writer) -> TableRecord:
    """Return the record with the time of the change. Raise `InvalidRequest` if nothing changes."""
    former = record.definition.throughput
    if wanted == former:
        raise InvalidRequest(
            "The provisioned throughput for the table will not change. The requested value equals the current"
            f" value. Current ReadCapacityUnits provisioned for the table: {former.read}. Requested"
            f" ReadCapacityUnits: {wanted.read}. Current WriteCapacityUnits provisioned for the table:"
            f" {former.write}. Requested WriteCapacityUnits: {wanted.write}. Refer to the Amazon DynamoDB"
            " Developer Guide for current limits and how to request higher limits."
        )
    if wanted.read > former.read or wanted.write > former.write:
        record = replace(record, throughput_raised_at=writer.now)
    if wanted.read < former.read or wanted.write < former.write:
        record = replace(
            record, throughput_lowered_at=writer.now, decreases=count_decreases_today(record, writer.now) + 1
        )
    return record


def _update_stream(record: TableRecord, operation: UpdateTable, writer: Writer) -> TableRecord:
    """Open or close the stream and return the new record. Raise `InvalidRequest` if that changes nothing."""
    assert operation.stream is not None
    view, is_enabled = operation.stream.view, record.definition.stream_view is not None
    if view is None:
        if not is_enabled:
            raise InvalidRequest(f"Table has no stream to disable: TableName: {operation.table}")
        return stream_lifecycle.close_stream(record, writer)
    if is_enabled:
        raise InvalidRequest(f"Table already has an enabled stream: TableName: {operation.table}")
    return stream_lifecycle.open_stream(record, view, writer)


def _create_index(
    record: TableRecord, index: IndexDefinition, attributes: tuple[KeyAttribute, ...], writer: Writer
) -> TableRecord:
    """Return the record with a new global index.

    Writes maintain it from now on; a job backfills the existing items. Raise `InvalidRequest` if the name
    exists, `LimitExceeded` beyond 20 indexes or while another index is created.
    """
    definition = record.definition
    if index.name in record.indexes:
        raise InvalidRequest("Attempting to create an index which already exists")
    if any(known.status != "ACTIVE" for known in record.indexes.values()):
        raise LimitExceeded(
            "Subscriber limit exceeded: Only 1 online index can be created or deleted simultaneously"
            " per table"
        )
    if len(definition.global_indexes) >= MAX_GLOBAL_INDEXES:
        raise LimitExceeded(
            "One or more parameter values were invalid: GlobalSecondaryIndex count exceeds the per-table"
            f" limit of {MAX_GLOBAL_INDEXES}"
        )
    if definition.billing_mode == "PAY_PER_REQUEST" and index.throughput is not None:
        raise _build_on_demand_error(index.name)
    slot = record.next_slot
    catalog.create_index(writer.connection, record.number, slot)
    jobs.add(writer.connection, BackfillJob(record.number, index.name, slot))
    return replace(
        record,
        definition=replace(
            definition,
            attributes=_merge_attributes(record, index, attributes),
            global_indexes=(*definition.global_indexes, index),
        ),
        indexes={**record.indexes, index.name: IndexRecord(slot, "CREATING", backfilling=True)},
        next_slot=slot + 1,
    )


def _merge_attributes(
    record: TableRecord, index: IndexDefinition, given: tuple[KeyAttribute, ...]
) -> tuple[KeyAttribute, ...]:
    """Return the table's key attributes plus those of the new index.

    Raise `InvalidRequest` if a known attribute gets another type, or if one of the index is not defined.
    """
    known = {attribute.name: attribute for attribute in record.definition.attributes}
    for attribute in given:
        former = known.setdefault(attribute.name, attribute)
        if former != attribute:
            role = "HASH" if attribute.name == index.keys.partition else "RANGE"
            raise InvalidRequest(
                "One or more parameter values were invalid: Attributes cannot be redefined. Please check that"
                " your attribute has the same type as previously defined. Existing schema:"
                f" Schema:[SchemaElement: key{{{former.name}:{former.type}:{role}}}] New schema:"
                f" Schema:[SchemaElement: key{{{attribute.name}:{attribute.type}:{role}}}]"
            )
    missing = [name for name in index.keys.names if name not in known]
    if missing:
        raise InvalidRequest(
            "One or more parameter values were invalid: Some index key attributes are not defined in"
            f" AttributeDefinitions. Keys: [{', '.join(index.keys.names)}],"
            f" AttributeDefinitions: [{', '.join(known)}]"
        )
    used = {name for one in (*record.all_indexes, index) for name in one.keys.names}
    used |= set(record.definition.keys.names)
    return tuple(attribute for attribute in known.values() if attribute.name in used)


def _delete_index(record: TableRecord, name: str, writer: Writer) -> TableRecord:
    """Return the record without the global index; a job drops its rows. Raise `NotFound` without it."""
    index = record.indexes.get(name)
    definition = record.definition
    if index is None:
        raise NotFound("Requested resource not found")
    if all(name != known.name for known in definition.global_indexes):
        raise InvalidRequest(f"Cannot delete an index that is not a GlobalSecondaryIndex: {name}")
    jobs.add(writer.connection, DropJob(record.number, index.slot))
    remaining = tuple(known for known in definition.global_indexes if known.name != name)
    used = {key for one in (*remaining, *definition.local_indexes) for key in one.keys.names}
    used |= set(definition.keys.names)
    return replace(
        record,
        definition=replace(
            definition,
            global_indexes=remaining,
            attributes=tuple(known for known in definition.attributes if known.name in used),
        ),
        indexes={key: value for key, value in record.indexes.items() if key != name},
    )


def _update_index(record: TableRecord, change: UpdateIndex) -> TableRecord:
    """Return the record with the index's new throughput. Raise `NotFound` without the index."""
    definition = record.definition
    if max(change.throughput.read, change.throughput.write) > MAX_INDEX_UNITS:
        raise InvalidRequest(
            "This operation cannot be performed with given input values. Please contact DynamoDB service team"
            " for more info: Action Blocked: IndexUpdate"
        )
    if all(index.name != change.name for index in definition.global_indexes):
        raise NotFound("Requested resource not found")
    if definition.billing_mode == "PAY_PER_REQUEST":
        raise _build_on_demand_error(change.name)
    return replace(
        record,
        definition=replace(
            definition,
            global_indexes=tuple(
                replace(index, throughput=change.throughput) if index.name == change.name else index
                for index in definition.global_indexes
            ),
        ),
    )


def _build_on_demand_error(index: str) -> InvalidRequest:
    """Return the error for throughput given to an index of an on-demand table."""
    return InvalidRequest(
        "One or more parameter values were invalid: Neither ReadCapacityUnits nor WriteCapacityUnits can"
        f" be specified for index: {index} when BillingMode is PAY_PER_REQUEST"
    )
