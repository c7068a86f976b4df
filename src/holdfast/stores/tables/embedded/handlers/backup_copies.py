"""Helpers for backups: the id and summary of one, the backup of a deleted table, the start of a copy job."""

from __future__ import annotations

import msgspec

from holdfast.core.limits import MAX_RECOVERY_DAYS
from holdfast.core.rng import make_hex_token
from holdfast.operations.tables import BackupSummary
from holdfast.operations.tables.recovery import BackupType
from holdfast.stores.tables.embedded.records import BackupRecord, CopyJob, DropJob, TableRecord
from holdfast.stores.tables.embedded.storage import backups, catalog, jobs
from holdfast.stores.tables.embedded.storage.writer import Writer
from holdfast.stores.tables.embedded.table import Table

replace = msgspec.structs.replace


def generate_backup_id(now: float) -> str:
    """Return a backup id in the form of a backup ARN: the time in milliseconds and eight hex digits."""
    return f"{int(now * 1000):014d}-{make_hex_token(4)}"


def build_summary(table: Table, name: str, kind: BackupType, writer: Writer) -> BackupSummary:
    """Build the summary of a new backup. A system backup is available at once and expires after 35 days."""
    _, size = writer.read_counts(table.number).get(0, (0, 0))
    is_system = kind == "SYSTEM"
    return BackupSummary(
        generate_backup_id(writer.now),
        name,
        table.name,
        table.record.id,
        "AVAILABLE" if is_system else "CREATING",
        kind,
        writer.now,
        size,
        writer.now + MAX_RECOVERY_DAYS * 86400 if is_system else None,
    )


def keep_system_backup(table: Table, writer: Writer) -> None:
    """Keep a deleted table that had continuous backups for 35 days: its own rows become the backup."""
    items, _ = writer.read_counts(table.number).get(0, (0, 0))
    backup_summary = build_summary(table, f"{table.name}$DeletedTableBackup", "SYSTEM", writer)
    backups.save(writer.connection, BackupRecord(backup_summary, table.record, table.number, items))
    for index in table.indexes:
        jobs.add(writer.connection, DropJob(table.number, index.slot))


def start_copy(source: TableRecord, job: CopyJob, writer: Writer) -> None:
    """Add the job that copies `source`.

    From now on the source logs old images, so that the copy can undo later changes.
    """
    catalog.save_table(writer, replace(source, copies=source.copies + 1))
    jobs.add(writer.connection, job)
