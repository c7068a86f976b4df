"""Handlers of continuous backups, on-demand backups and restores in the embedded engine."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from holdfast.core.errors import (
    BackupInUse,
    BackupNotFound,
    InvalidRequest,
    InvalidRestoreTime,
    RecoveryUnavailable,
    TableAlreadyExists,
    TableInUse,
    TableNotFound,
)
from holdfast.core.limits import MAX_RECOVERY_DAYS
from holdfast.operations.tables import (
    BackupDescription,
    BackupName,
    BackupSummary,
    ContinuousBackups,
    CreateBackup,
    DeleteBackup,
    DescribeBackup,
    DescribeContinuousBackups,
    ListBackups,
    ListBackupsResult,
    RestoreOrigin,
    RestoreOverrides,
    RestoreTableFromBackup,
    RestoreTableToPointInTime,
    TableDefinition,
    TableDescription,
    Throughput,
    UpdateContinuousBackups,
)
from holdfast.stores.tables.embedded.descriptions import build_description
from holdfast.stores.tables.embedded.handlers.backup_copies import build_summary, start_copy
from holdfast.stores.tables.embedded.handlers.tables import build_record, mark_creating
from holdfast.stores.tables.embedded.records import BackupRecord, CopyJob, DropJob, TableRecord
from holdfast.stores.tables.embedded.storage import backups, catalog, jobs, schema, streams
from holdfast.stores.tables.embedded.storage.catalog import Catalog
from holdfast.stores.tables.embedded.storage.reader import Reader
from holdfast.stores.tables.embedded.storage.writer import Writer
from holdfast.stores.tables.embedded.table import Table

replace = msgspec.structs.replace


def describe_continuous_backups(operation: DescribeContinuousBackups, reader: Reader) -> ContinuousBackups:
    """Return whether point-in-time recovery is enabled, and its window. Raise `TableNotFound`."""
    return _build_continuous_backups(_require_table(reader.catalog, operation.table).record, reader.now)


def _require_table(from_catalog: Catalog, name: str) -> Table:
    """Return the table. Raise `TableNotFound`, the error of backup operations, without one."""
    table = from_catalog.tables.get(name)
    if table is None:
        raise TableNotFound(f"Table not found: {name}")
    return table


def _require_active_table(from_catalog: Catalog, name: str) -> Table:
    """Return the table. Raise `TableInUse` while it is being restored."""
    table = _require_table(from_catalog, name)
    if table.record.status == "CREATING":
        raise TableInUse(f"Table is being created: {name}")
    return table


def require_recoverable(record: TableRecord, at: float, now: float) -> None:
    """Raise `RecoveryUnavailable` without recovery, `InvalidRestoreTime` for a time outside its window."""
    if record.recovery_since is None:
        raise RecoveryUnavailable(
            f"Point in time recovery is not enabled for table '{record.definition.name}'"
        )
    # Times on the wire may be whole seconds, so the whole second in which recovery was enabled is valid.
    if not int(_find_earliest(record, now)) <= at <= now:
        raise InvalidRestoreTime(
            f"RestoreDateTime '{_format_time(at)}' must be within EarliestRestorableDateTime"
            f" '{_format_time(_find_earliest(record, now))}' and LatestRestorableDateTime "
            f"'{_format_time(now)}'"
        )


def _build_continuous_backups(record: TableRecord, now: float) -> ContinuousBackups:
    """Return the state of point-in-time recovery; its window ends now."""
    if record.recovery_since is None:
        return ContinuousBackups(enabled=False)
    return ContinuousBackups(True, record.recovery_days, _find_earliest(record, now), now)


def _find_earliest(record: TableRecord, now: float) -> float:
    """Return the earliest time that the table can be restored to."""
    assert record.recovery_since is not None
    return max(record.recovery_since, now - record.recovery_days * 86400)


def update_continuous_backups(operation: UpdateContinuousBackups, writer: Writer) -> ContinuousBackups:
    """Enable or disable point-in-time recovery, or change its window.

    It reaches back to when it was enabled.
    """
    record = _require_active_table(writer.catalog, operation.table).record
    if not operation.enabled:
        record = replace(record, recovery_since=None, recovery_days=MAX_RECOVERY_DAYS)
    elif record.recovery_since is None:
        record = replace(
            record, recovery_since=writer.now, recovery_from=writer.get_last_sequence(record.number) + 1
        )
    else:
        # Changes older than the previous window may be trimmed already: a longer window does not restore
        # them.
        record = replace(record, recovery_since=_find_earliest(record, writer.now))
    if operation.enabled and operation.recovery_days:
        record = replace(record, recovery_days=operation.recovery_days)
    catalog.save_table(writer, record)
    return _build_continuous_backups(record, writer.now)


def restore_table_to_point_in_time(operation: RestoreTableToPointInTime, writer: Writer) -> TableDescription:
    """Create the target table and start the job that copies the source as it was at that time.

    Raise `InvalidRestoreTime` outside the recovery window, `RecoveryUnavailable` without recovery.
    """
    source = _require_active_table(writer.catalog, operation.source).record
    at = writer.now if operation.at is None else operation.at
    require_recoverable(source, at, writer.now)
    target = _create_target(source, operation.target, operation.overrides, writer, at, None)
    last = writer.get_last_sequence(source.number)
    first = streams.find_first_after(writer.connection, source.number, int(at * 1000), last)
    # The log has no old images from before recovery was enabled, so earlier changes cannot be undone.
    start_copy(source, CopyJob(source.number, target.number, max(first, source.recovery_from)), writer)
    return build_description(mark_creating(target), {}, writer.now)


def _format_time(moment: float) -> str:
    """Return the time in UTC with milliseconds, as DynamoDB's error texts have it."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"


def _create_target(
    source: TableRecord,
    name: str,
    overrides: RestoreOverrides,
    writer: Writer,
    at: float,
    backup: BackupRecord | None,
) -> TableRecord:
    """Create the restored table, CREATING until its copy is done.

    Streams, lifetimes and recovery settings are not copied.
    """
    if name in writer.catalog.tables:
        raise TableAlreadyExists(f"Table already exists: {name}")
    definition = _build_definition(source.definition, name, overrides)
    record = build_record(catalog.allocate_number(writer.connection), definition, writer.now)
    origin = RestoreOrigin(
        source.definition.name, source.id, at, None if backup is None else backup.summary.id
    )
    record = replace(record, status="CREATING", restore=origin)
    catalog.insert_table(writer, record)
    return record


def _build_definition(source: TableDefinition, name: str, overrides: RestoreOverrides) -> TableDefinition:
    """Return the target's definition: the source's with the overrides, without stream and deletion
    protection.
    """
    _check_overrides(source, overrides)
    global_indexes = source.global_indexes if overrides.global_indexes is None else overrides.global_indexes
    local_indexes = source.local_indexes if overrides.local_indexes is None else overrides.local_indexes
    used = {key for index in (*global_indexes, *local_indexes) for key in index.keys.names}
    used |= set(source.keys.names)
    mode = overrides.billing_mode or source.billing_mode
    throughput = overrides.throughput or source.throughput
    if mode == "PAY_PER_REQUEST":
        global_indexes = tuple(replace(index, throughput=None) for index in global_indexes)
    elif min(throughput.read, throughput.write) < 1:
        raise InvalidRequest(
            "One or more parameter values were invalid: ReadCapacityUnits and WriteCapacityUnits must both be"
            " specified when BillingMode is PROVISIONED"
        )
    return replace(
        source,
        name=name,
        attributes=tuple(known for known in source.attributes if known.name in used),
        global_indexes=global_indexes,
        local_indexes=local_indexes,
        billing_mode=mode,
        throughput=Throughput() if mode == "PAY_PER_REQUEST" else throughput,
        deletion_protection=False,
        stream_view=None,
    )


def _check_overrides(source: TableDefinition, overrides: RestoreOverrides) -> None:
    """Raise `InvalidRequest` if a restore adds or changes indexes, of which it may only leave some out, or
    gives throughput to an on-demand table.
    """
    if overrides.throughput is not None and overrides.billing_mode == "PAY_PER_REQUEST":
        raise InvalidRequest("Cannot override ProvisionedThroughput unless BillingMode is PROVISIONED")
    known = {index.name: index for index in source.global_indexes + source.local_indexes}
    for index in (overrides.global_indexes or ()) + (overrides.local_indexes or ()):
        former = known.get(index.name)
        if former is None or (former.keys, former.projection) != (index.keys, index.projection):
            raise InvalidRequest(
                f"Invalid Request: Index {index.name} does not match a secondary index that existed in the"
                " source table and cannot be created during the restore operation"
            )


def create_backup(operation: CreateBackup, writer: Writer) -> BackupSummary:
    """Create the backup, CREATING until the job that copies the table's items is done."""
    table = _require_active_table(writer.catalog, operation.table)
    number = catalog.allocate_number(writer.connection)
    writer.connection.execute(schema.build_items_ddl(number))
    backup_summary = build_summary(table, operation.name, "USER", writer)
    backups.save(writer.connection, BackupRecord(backup_summary, table.record, number))
    log_from = writer.get_last_sequence(table.number) + 1
    start_copy(table.record, CopyJob(table.number, number, log_from, backup_id=backup_summary.id), writer)
    return backup_summary


def describe_backup(operation: DescribeBackup, reader: Reader) -> BackupDescription:
    """Return the backup's description. Raise `BackupNotFound` without it."""
    return _build_backup_description(
        _require_backup(backups.find(reader.connection, *_get_names(operation.backup)), operation.backup)
    )


def _get_names(name: BackupName) -> tuple[str, str]:
    """Return the backup's table and id."""
    return name.table, name.id


def _require_backup(backup: BackupRecord | None, name: BackupName) -> BackupRecord:
    """Return the backup. Raise `BackupNotFound` if it is None."""
    if backup is None:
        raise BackupNotFound(f"Backup not found: {name}")
    return backup


def _build_backup_description(backup: BackupRecord) -> BackupDescription:
    """Return the backup's description, with its source table as it was then."""
    counts = {0: (backup.item_count, backup.summary.size_bytes)}
    return BackupDescription(
        backup.summary,
        build_description(backup.source, counts, backup.summary.created_at),
        backup.source.lifetime_attribute,
    )


def delete_backup(operation: DeleteBackup, writer: Writer) -> BackupDescription:
    """Delete the backup; a job drops its rows. Raise `BackupInUse` while it is being created or restored."""
    backup = _require_backup(backups.find(writer.connection, *_get_names(operation.backup)), operation.backup)
    if backup.summary.status == "CREATING" or _is_being_restored(backup, writer):
        raise BackupInUse("There is another ongoing conflicting backup control plane operation on the table.")
    backups.remove(writer.connection, backup.summary.id)
    jobs.add(writer.connection, DropJob(backup.number))
    return _build_backup_description(replace(backup, summary=replace(backup.summary, status="DELETED")))


def _is_being_restored(backup: BackupRecord, writer: Writer) -> bool:
    """Return whether a copy job still reads the backup."""
    return any(
        isinstance(job, CopyJob) and job.source == backup.number
        for _, job in jobs.list_pending(writer.connection)
    )


def list_backups(operation: ListBackups, reader: Reader) -> ListBackupsResult:
    """Return one page of the wanted backups, sorted by id, which is by time."""
    wanted = [
        backup.summary for backup in backups.list_all(reader.connection) if _is_wanted(backup, operation)
    ]
    found = sorted(wanted, key=lambda one: one.id)
    if operation.after is not None:
        after = operation.after.id
        found = [one for one in found if one.id > after]
    page = tuple(found[: operation.limit])
    last = BackupName(page[-1].table, page[-1].id) if len(found) > len(page) else None
    return ListBackupsResult(page, last)


def _is_wanted(backup: BackupRecord, operation: ListBackups) -> bool:
    """Return whether the backup matches the operation's table, type and time bounds."""
    one = backup.summary
    return (
        operation.table in (None, one.table)
        and operation.type in ("ALL", one.type)
        and (operation.since is None or one.created_at >= operation.since)
        and (operation.before is None or one.created_at < operation.before)
    )


def restore_table_from_backup(operation: RestoreTableFromBackup, writer: Writer) -> TableDescription:
    """Create the target table and start the job that copies the backup.

    Raise `BackupInUse` while the backup is being created.
    """
    backup = _require_backup(backups.find(writer.connection, *_get_names(operation.backup)), operation.backup)
    if backup.summary.status != "AVAILABLE":
        raise BackupInUse("Backup is being created: " + backup.summary.name)
    at = backup.summary.created_at
    target = _create_target(backup.source, operation.target, operation.overrides, writer, at, backup)
    jobs.add(writer.connection, CopyJob(backup.number, target.number, None))
    return build_description(mark_creating(target), {}, writer.now)
