"""The stored records about tables, indexes, streams, backups and jobs of the embedded engine.

Each is stored as one blob per row, because it is read whole and changes rarely. A field added later gets a
default, so that older files stay readable.
"""

from __future__ import annotations

import msgspec

from holdfast.operations.tables import (
    BackupSummary,
    IndexDefinition,
    RestoreOrigin,
    StreamView,
    TableDefinition,
    TableStatus,
)


class IndexRecord(msgspec.Struct, frozen=True):
    """An index. `slot` names its rows on disk; a slot is never reused within its table."""

    slot: int
    status: TableStatus = "ACTIVE"
    backfilling: bool = False


class TableRecord(msgspec.Struct, frozen=True):
    """A table. `number` names its rows on disk and is never reused."""

    number: int
    id: str
    definition: TableDefinition
    created_at: float
    status: TableStatus = "ACTIVE"
    indexes: dict[str, IndexRecord] = {}
    next_slot: int = 1
    lifetime_attribute: str | None = None
    stream_label: str | None = None
    recovery_since: float | None = None
    recovery_from: int = 0
    """The first change that was logged with its old image when recovery was switched on."""
    recovery_days: int = 35
    copies: int = 0
    """The running backups and restores of this table. While there are any, old images are logged."""
    billing_changed_at: float | None = None
    table_class_changed_at: float | None = None
    throughput_raised_at: float | None = None
    throughput_lowered_at: float | None = None
    restore: RestoreOrigin | None = None
    decreases: int = 0
    """How often throughput was lowered on the day of `throughput_lowered_at`."""

    @property
    def all_indexes(self) -> tuple[IndexDefinition, ...]:
        return self.definition.global_indexes + self.definition.local_indexes


class StreamRecord(msgspec.Struct, frozen=True):
    """A stream: a range of one table's change log. `last_seq` is None while it is open."""

    table: str
    label: str
    number: int
    definition: TableDefinition
    view: StreamView
    created_at: float
    first_seq: int
    last_seq: int | None = None
    closed_at: float | None = None


class BackupRecord(msgspec.Struct, frozen=True):
    """A backup: a copy of a table's items under its own number, and the table's record at that time."""

    summary: BackupSummary
    source: TableRecord
    number: int
    item_count: int = 0


class BackfillJob(msgspec.Struct, frozen=True, tag="BackfillJob"):
    """Fill a new index from the existing items, up to row `until`. `after` is the last row done."""

    number: int
    index: str
    slot: int
    after: int = 0
    until: int | None = None


class LifetimesJob(msgspec.Struct, frozen=True, tag="LifetimesJob"):
    """Store the end of life of items that existed before the table had a lifetime attribute."""

    number: int
    attribute: str
    after: int = 0
    until: int | None = None


class DropJob(msgspec.Struct, frozen=True, tag="DropJob"):
    """Delete unreachable rows in small steps: those of an index, or of a table if `slot` is None."""

    number: int
    slot: int | None = None


class CopyJob(msgspec.Struct, frozen=True, tag="CopyJob"):
    """Copy the items of `source` to `target` as they were before change `log_from` (None: as they are).

    First copy the current items, in row order. Then undo the logged changes from `undo_from` back to
    `log_from`, which removes everything written since, also during the copy.
    """

    source: int
    target: int
    log_from: int | None
    after: int = 0
    until: int | None = None
    undo_from: int | None = None
    backup_id: str | None = None


Job = BackfillJob | LifetimesJob | DropJob | CopyJob
