"""The steps of background jobs: each does a bounded part of a job and returns the job that remains.

A step is a unit of work. It gets the job as it is stored, so that a process that takes over after a crash
resumes where the last committed step ended. Doing a part twice changes nothing.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from holdfast.core.limits import BACKFILL_BATCH_ITEMS, TRIM_BATCH_RECORDS
from holdfast.operations.values import item_size
from holdfast.stores.tables.embedded.plan.change import StoredItem, build_removal, build_replacement
from holdfast.stores.tables.embedded.records import (
    BackfillJob,
    CopyJob,
    DropJob,
    Job,
    LifetimesJob,
    TableRecord,
)
from holdfast.stores.tables.embedded.storage import backups, catalog, codec, jobs, rows, streams
from holdfast.stores.tables.embedded.storage.writer import Writer
from holdfast.stores.tables.embedded.table import Table

replace = msgspec.structs.replace

WalkJob = TypeVar("WalkJob", BackfillJob, LifetimesJob, CopyJob)


def run_step(job: Job, writer: Writer) -> Job | None:
    """Run one step and return the job as it is afterwards, or None if it is done."""
    match job:
        case BackfillJob():
            return _backfill(job, writer)
        case LifetimesJob():
            return _record_lifetimes(job, writer)
        case DropJob():
            return _drop(job, writer)
        case CopyJob():
            return _copy(job, writer)


def _read_next_rows(job: WalkJob, number: int, writer: Writer) -> tuple[WalkJob, list[rows.ItemRow]]:
    """Return the job as it is once the next rows are done, and these rows of the table with this `number`.

    Only rows that existed when the job began are processed. Later rows were handled when they were written;
    following them might never end.
    """
    until = rows.read_last_id(writer.connection, number) if job.until is None else job.until
    batch = rows.read_after(writer.connection, number, job.after, until, BACKFILL_BATCH_ITEMS)
    return replace(job, until=until, after=batch[-1].id if batch else job.after), batch


# --- a new index --------------------------------------------------------------------------------------------


def _backfill(job: BackfillJob, writer: Writer) -> Job | None:
    """Add the next items to the index; after the last, make the index ACTIVE.

    Items that do not fit it (an attribute missing, mistyped, empty or too large) are left out.
    """
    table = writer.catalog.tables_by_number.get(job.number)
    index = None if table is None else table.indexes_by_name.get(job.index)
    if table is None or index is None or index.slot != job.slot:
        return None
    job, batch = _read_next_rows(job, table.number, writer)
    for row in batch:
        item = codec.decode(row.item)
        key_bytes = index.encode_key(item)
        if key_bytes is not None:
            view_size = None if index.projected is None else item_size(index.project(item))
            added = rows.add_index_row(writer.connection, table.number, index.slot, key_bytes, row, view_size)
            if added:
                writer.tally(table.number, index.slot, 1, row.size if view_size is None else view_size)
    if batch:
        return job
    record = table.record
    active = replace(record.indexes[job.index], status="ACTIVE", backfilling=False)
    catalog.save_table(writer, replace(record, indexes={**record.indexes, job.index: active}))
    return None


# --- lifetimes ----------------------------------------------------------------------------------------------


def _record_lifetimes(job: LifetimesJob, writer: Writer) -> Job | None:
    """Store the end of life of the next items."""
    table = writer.catalog.tables_by_number.get(job.number)
    if table is None or table.lifetime_attribute != job.attribute:
        return None
    job, batch = _read_next_rows(job, table.number, writer)
    for row in batch:
        rows.set_expiry(
            writer.connection, table.number, row.id, table.get_end_of_life(codec.decode(row.item))
        )
    return job if batch else None


# --- unreachable rows ---------------------------------------------------------------------------------------


def _drop(job: DropJob, writer: Writer) -> Job | None:
    """Delete the next rows of a dropped index, or of a dropped table and its log.

    Wait while a copy still reads the table.
    """
    if job.slot is not None:
        return (
            job
            if rows.delete_index_rows(writer.connection, job.number, job.slot, TRIM_BATCH_RECORDS)
            else None
        )
    if _is_being_copied(job.number, writer) or rows.delete_table_rows(
        writer.connection, job.number, TRIM_BATCH_RECORDS
    ):
        return job
    # The log is kept after its table for as long as one of its streams can be read.
    if streams.find_by_number(writer.connection, job.number):
        return None
    return job if rows.delete_log_rows(writer.connection, job.number, TRIM_BATCH_RECORDS) else None


def _is_being_copied(number: int, writer: Writer) -> bool:
    """Return whether a backup or restore that began before the deletion still reads the table."""
    pending = (job for _, job in jobs.list_pending(writer.connection))
    return any(isinstance(job, CopyJob) and job.source == number for job in pending)


# --- copies -------------------------------------------------------------------------------------------------


def _copy(job: CopyJob, writer: Writer) -> Job | None:
    """Copy the next items as they are now; after the last, undo changes back to the time of the copy."""
    target = writer.catalog.tables_by_number.get(job.target)
    if target is None and job.backup_id is None:
        _release_source(job, writer)  # The restored table was deleted in the meantime.
        return None
    if job.undo_from is None:
        return _copy_items(job, target, writer)
    return _undo_changes(job, target, writer)


def _copy_items(job: CopyJob, target: Table | None, writer: Writer) -> Job | None:
    """Copy the next items; after the last, start to undo changes, or finish if there are none to undo."""
    job, batch = _read_next_rows(job, job.source, writer)
    for row in batch:
        _put_into_copy(job, target, (row.pk, row.sk), row.item, row.size, writer)
    if batch:
        return job
    if job.log_from is None:
        _finish_copy(job, target, writer)
        return None
    return replace(job, undo_from=writer.get_last_sequence(job.source))


def _undo_changes(job: CopyJob, target: Table | None, writer: Writer) -> Job | None:
    """Undo the next changes, newest first; after the last, finish the copy."""
    assert job.log_from is not None
    assert job.undo_from is not None
    batch = rows.read_changes_back(
        writer.connection, job.source, job.undo_from, job.log_from, TRIM_BATCH_RECORDS
    )
    for change in batch:
        size = 0 if change.old is None else item_size(codec.decode(change.old))
        _put_into_copy(job, target, (change.pk, change.sk), change.old, size, writer)
    if batch:
        return replace(job, undo_from=batch[-1].seq - 1)
    _finish_copy(job, target, writer)
    return None


def _put_into_copy(
    job: CopyJob,
    target: Table | None,
    key_bytes: tuple[bytes, bytes],
    blob: bytes | None,
    size: int,
    writer: Writer,
) -> None:
    """Put an item into the copy, or delete it there if `blob` is None.

    A backup (no target table) has rows only; a table also has indexes.
    """
    if target is None:
        rows.put_row(writer, job.target, key_bytes, blob, size)
        return
    old = writer.read(target, key_bytes)
    if blob is not None:
        writer.apply(build_replacement(target, key_bytes, old, codec.decode(blob), size))
    elif old is not None:
        writer.apply(build_removal(target, key_bytes, old))


def _finish_copy(job: CopyJob, target: Table | None, writer: Writer) -> None:
    """Make the restored table ACTIVE or the backup AVAILABLE, and release the source."""
    if target is not None:
        record = target.record
        origin = None if record.restore is None else replace(record.restore, in_progress=False)
        catalog.save_table(writer, replace(record, status="ACTIVE", restore=origin))
    else:
        _mark_backup_available(job, writer)
    _release_source(job, writer)


def _mark_backup_available(job: CopyJob, writer: Writer) -> None:
    """Make the backup AVAILABLE, with its item count and size."""
    items, size = writer.read_counts(job.target).get(0, (0, 0))
    for backup in backups.list_all(writer.connection):
        if backup.summary.id == job.backup_id:
            available = replace(backup.summary, status="AVAILABLE", size_bytes=size)
            backups.save(writer.connection, replace(backup, summary=available, item_count=items))


def _release_source(job: CopyJob, writer: Writer) -> None:
    """Count one running copy less for the source table, which may then stop logging old images."""
    source = writer.catalog.tables_by_number.get(job.source)
    if source is not None and job.log_from is not None:
        record: TableRecord = source.record
        catalog.save_table(writer, replace(record, copies=max(0, record.copies - 1)))


def expire(table: Table, limit: int, writer: Writer) -> int:
    """Remove up to `limit` expired items, recorded as removed by the service.

    Return how many items were processed.
    """
    found = rows.find_expired(writer.connection, table.number, int(writer.now), limit)
    for row in found:
        stored = StoredItem(row.id, codec.decode(row.item), row.size)
        if table.is_expired(stored.item, writer.now):
            writer.apply(build_removal(table, (row.pk, row.sk), stored, by_service=True))
        else:
            # The stored end comes from a former lifetime attribute. The job has not updated this item yet.
            rows.set_expiry(writer.connection, table.number, row.id, table.get_end_of_life(stored.item))
    return len(found)
