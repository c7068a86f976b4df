"""Erasure: removes the traces of deleted items from a table's change logs and backups, in committed steps.

The engine calls this, not the worker, because the caller waits for it. If a stream of the table can still be
read, a record of the log keeps its number and its key, so that a reader of the stream learns that the item is
gone; otherwise the whole record is removed. A restore to an earlier time then does not bring the item back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import msgspec

from holdfast.core.limits import BACKFILL_BATCH_ITEMS, TRIM_BATCH_RECORDS
from holdfast.operations.values import Item
from holdfast.stores.tables.embedded.records import BackupRecord
from holdfast.stores.tables.embedded.storage import backups, codec, log_records, rows, streams
from holdfast.stores.tables.embedded.storage.writer import Writer
from holdfast.stores.tables.embedded.table import KeyBytes, Table


@dataclass
class ErasureReport:
    """Counts of the removed records and items.

    `keys_kept` counts records that still hold a key, `mentions` records that were left. Mentions belong to
    items that still exist: without their records a restore would lose them.
    """

    records: int = 0
    keys_kept: int = 0
    backup_items: dict[str, int] = field(default_factory=dict)
    mentions: int = 0
    unfinished_backups: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Targets:
    """The items to erase: their keys, and texts that deleted items contain."""

    keys: frozenset[KeyBytes]
    texts: tuple[bytes, ...]

    def has_text_in(self, *blobs: bytes | None) -> bool:
        """Return whether one of the blobs contains one of the texts."""
        return any(text in blob for text in self.texts for blob in blobs if blob)


def erase_traces(
    run_unit: Callable[[Callable[[Writer], object]], object],
    name: str,
    keys: Iterable[Item],
    texts: Iterable[str],
) -> ErasureReport:
    """Remove all traces of the items with these keys, and of deleted items that contain one of these texts.

    `run_unit` runs a function as one committed unit of work.
    """
    report = ErasureReport()
    erased_keys = list(keys)
    encoded_texts = tuple(text.encode("utf-8", "surrogatepass") for text in texts)

    def run_walk(work: Callable[[Writer, Table, _Targets], int | None]) -> None:
        """Run a walk in steps, each of which resumes after the previous one, until it returns None."""

        def step(writer: Writer) -> int | None:
            table = writer.get_table(name)
            return work(writer, table, _Targets(frozenset(map(table.encode_key, erased_keys)), encoded_texts))

        while run_unit(step) is not None:
            pass

    run_walk(_LogWalk(report).step)
    run_walk(_BackupWalk(report).step)
    return report


class _LogWalk:
    """A walk over the table's change log.

    It includes the logs of former tables of that name whose streams can still be read.
    """

    def __init__(self, report: ErasureReport) -> None:
        self._report = report
        self._after: dict[int, int] = {}

    def step(self, writer: Writer, table: Table, targets: _Targets) -> int | None:
        """Erase in the next batch of records. Return its log's number, or None when all logs are done."""
        stream_numbers = {
            stream.number for stream in streams.list_page(writer.connection, table.name, None, 1000)
        }
        for number in sorted({table.number, *stream_numbers}):
            after = self._after.get(number, 0)
            batch = log_records.read_after(writer.connection, number, after, TRIM_BATCH_RECORDS)
            if batch:
                for record in batch:
                    self._erase(writer, table, number, record, targets, number in stream_numbers)
                self._after[number] = batch[-1].seq
                return number
        return None

    def _erase(
        self,
        writer: Writer,
        table: Table,
        number: int,
        record: log_records.LogRecord,
        targets: _Targets,
        keep_key: bool,
    ) -> None:
        """Erase one record if it belongs to a target: remove it, or only its images if `keep_key`.

        A record that contains a text, of an item that still exists, is counted as a mention and left.
        """
        key_bytes = (record.pk, record.sk)
        if key_bytes not in targets.keys:
            if not targets.has_text_in(record.old, record.new, record.key, record.pk, record.sk):
                return
            if number == table.number and writer.read(table, key_bytes) is not None:
                self._report.mentions += 1
                return
        if not keep_key:
            log_records.remove(writer.connection, number, record.seq)
            self._report.records += 1
            return
        self._report.keys_kept += 1
        if record.old is not None or record.new is not None:
            image = codec.decode(record.new or record.old or b"")
            key = record.key or codec.encode(table.extract_key(image))
            log_records.erase_images(writer.connection, number, record.seq, key)
            self._report.records += 1


class _BackupWalk:
    """A walk over the finished backups of the table."""

    def __init__(self, report: ErasureReport) -> None:
        self._report = report
        self._after: dict[str, int] = {}
        self._done: set[str] = set()

    def step(self, writer: Writer, table: Table, targets: _Targets) -> int | None:
        """Erase in the next batch of items.

        Return the number of its backup, or None when all backups are done.
        """
        for backup in backups.list_all(writer.connection):
            id = backup.summary.id
            if backup.summary.table != table.name or id in self._done:
                continue
            if backup.summary.status != "AVAILABLE":
                self._report.unfinished_backups.append(id)
                self._done.add(id)
                continue
            self._erase_batch(writer, table, backup, targets)
            return backup.number
        return None

    def _erase_batch(self, writer: Writer, table: Table, backup: BackupRecord, targets: _Targets) -> None:
        """Delete the targets among the next items of the backup; after the last, correct its counts."""
        id, number = backup.summary.id, backup.number
        after = self._after.get(id, 0)
        batch = rows.read_after(
            writer.connection,
            number,
            after,
            rows.read_last_id(writer.connection, number),
            BACKFILL_BATCH_ITEMS,
        )
        if not batch:
            self._done.add(id)
            _recount(writer, backup)
            return
        for row in batch:
            key_bytes = (row.pk, row.sk)
            if key_bytes not in targets.keys:
                if not targets.has_text_in(row.item, row.pk, row.sk):
                    continue
                if writer.read(table, key_bytes) is not None:
                    self._report.mentions += 1
                    continue
            rows.put_row(writer, number, key_bytes, None, 0)
            self._report.backup_items[id] = self._report.backup_items.get(id, 0) + 1
        self._after[id] = batch[-1].id


def _recount(writer: Writer, backup: BackupRecord) -> None:
    """Store the backup's item count and size again after deletions."""
    items, size = writer.read_counts(backup.number).get(0, (0, 0))
    summary = msgspec.structs.replace(backup.summary, size_bytes=size)
    backups.save(writer.connection, msgspec.structs.replace(backup, summary=summary, item_count=items))
