"""Erasure from change logs and backups: removes the traces of erased items, in committed steps.

The engine calls this, not the worker, because the caller that erases waits for it. A record of the log keeps
its number. Where a stream of the table can still be read, the record also keeps its key, so that a reader
learns that the item is gone; elsewhere the whole record is removed. A restore to an earlier time then does
not bring the item back.
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
from holdfast.stores.tables.embedded.table import Place, Table


@dataclass
class Forgotten:
    """Counts of the removed records and items. `keys_kept` counts records that still hold a key, `mentions`
    records that were left.

    Mentions belong to items that still exist: without their records a restore would lose them.
    """

    records: int = 0
    keys_kept: int = 0
    backup_items: dict[str, int] = field(default_factory=dict)
    mentions: int = 0
    unfinished_backups: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Sought:
    places: frozenset[Place]
    texts: tuple[bytes, ...]

    def is_named_in(self, *blobs: bytes | None) -> bool:
        return any(text in blob for text in self.texts for blob in blobs if blob)


def forget(
    run: Callable[[Callable[[Writer], object]], object], name: str, keys: Iterable[Item], texts: Iterable[str]
) -> Forgotten:
    """Remove all traces of the items with these keys, and of deleted items that contain one of these
    texts.
    """
    forgotten = Forgotten()
    wanted = list(keys)
    encoded = tuple(text.encode("utf-8", "surrogatepass") for text in texts)

    def of_table(work: Callable[[Writer, Table, _Sought], int | None]) -> None:
        """Run a walk in steps. Each step begins where the one before ended, and the last returns None."""

        def step(writer: Writer) -> int | None:
            table = writer.table(name)
            return work(writer, table, _Sought(frozenset(map(table.place, wanted)), encoded))

        while run(step) is not None:
            pass

    of_table(_LogWalk(forgotten).step)
    of_table(_BackupWalk(forgotten).step)
    return forgotten


class _LogWalk:
    """A walk of the table's change log, and of those of former tables of that name with readable streams."""

    def __init__(self, forgotten: Forgotten) -> None:
        self._forgotten = forgotten
        self._after: dict[int, int] = {}

    def step(self, writer: Writer, table: Table, sought: _Sought) -> int | None:
        readable = {stream.number for stream in streams.listed(writer.connection, table.name, None, 1000)}
        for number in sorted({table.number, *readable}):
            after = self._after.get(number, 0)
            batch = log_records.after(writer.connection, number, after, TRIM_BATCH_RECORDS)
            if batch:
                for record in batch:
                    self._forget(writer, table, number, record, sought, number in readable)
                self._after[number] = batch[-1].seq
                return number
        return None

    def _forget(
        self,
        writer: Writer,
        table: Table,
        number: int,
        record: log_records.LogRecord,
        sought: _Sought,
        keeps_key: bool,
    ) -> None:
        place = (record.pk, record.sk)
        if place not in sought.places:
            if not sought.is_named_in(record.old, record.new, record.key, record.pk, record.sk):
                return
            if number == table.number and writer.read(table, place) is not None:
                self._forgotten.mentions += 1
                return
        if not keeps_key:
            log_records.remove(writer.connection, number, record.seq)
            self._forgotten.records += 1
            return
        self._forgotten.keys_kept += 1
        if record.old is not None or record.new is not None:
            image = codec.decode(record.new or record.old or b"")
            key = record.key or codec.encode(table.key_of(image))
            log_records.keep_key(writer.connection, number, record.seq, key)
            self._forgotten.records += 1


class _BackupWalk:
    def __init__(self, forgotten: Forgotten) -> None:
        self._forgotten = forgotten
        self._after: dict[str, int] = {}
        self._done: set[str] = set()

    def step(self, writer: Writer, table: Table, sought: _Sought) -> int | None:
        for backup in backups.every(writer.connection):
            id = backup.summary.id
            if backup.summary.table != table.name or id in self._done:
                continue
            if backup.summary.status != "AVAILABLE":
                self._forgotten.unfinished_backups.append(id)
                self._done.add(id)
                continue
            self._walk(writer, table, backup, sought)
            return backup.number
        return None

    def _walk(self, writer: Writer, table: Table, backup: BackupRecord, sought: _Sought) -> None:
        id, number = backup.summary.id, backup.number
        after = self._after.get(id, 0)
        batch = rows.after(
            writer.connection, number, after, rows.last(writer.connection, number), BACKFILL_BATCH_ITEMS
        )
        if not batch:
            self._done.add(id)
            _count_anew(writer, backup)
            return
        for row in batch:
            place = (row.pk, row.sk)
            if place not in sought.places:
                if not sought.is_named_in(row.item, row.pk, row.sk):
                    continue
                if writer.read(table, place) is not None:
                    self._forgotten.mentions += 1
                    continue
            rows.put_raw(writer, number, place, None, 0)
            self._forgotten.backup_items[id] = self._forgotten.backup_items.get(id, 0) + 1
        self._after[id] = batch[-1].id


def _count_anew(writer: Writer, backup: BackupRecord) -> None:
    items, size = writer.counts(backup.number).get(0, (0, 0))
    summary = msgspec.structs.replace(backup.summary, size_bytes=size)
    backups.save(writer.connection, msgspec.structs.replace(backup, summary=summary, item_count=items))
