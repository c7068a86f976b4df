"""Erasure: delete all data that a system finds of a subject, then remove it from change logs and backups.

    find → delete → (embedded) forget in logs and backups → compact the files → scan again → proof

The system defines how its items are found (`Privacy.subjects`). On the embedded engine the traces of deleted
items are removed too; a service keeps them for a time that the proof names.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.errors import HoldfastError, InvalidRequest, NotFound, ObjectHeld, SettingsError
from holdfast.core.limits import STREAM_RETENTION_S
from holdfast.guarantees.privacy.retention.periods import format_time
from holdfast.guarantees.privacy.retention.proof import Erasure
from holdfast.guarantees.privacy.retention.remainders import (
    Remainder,
    list_backups,
    list_bucket_remainders,
    list_held_remainders,
    list_queue_remainders,
    list_service_remainders,
)
from holdfast.guarantees.privacy.scanning import scan_files
from holdfast.model.entities.writes import Delete
from holdfast.model.operations import EngineOperation, Operation
from holdfast.model.system import System
from holdfast.model.tables import Table
from holdfast.operations.values import Item
from holdfast.runtime import Stores

# The engines are imported when data is erased: every system imports this module.
if TYPE_CHECKING:
    from holdfast.stores.queues.embedded import EmbeddedQueues
    from holdfast.stores.tables.embedded import EmbeddedTables

# A worker may write during the erasure; one that still does after this many rounds must be stopped first.
MAX_ROUNDS: Final = 5
# A shorter text matches too much data of others: items are then found by their keys alone.
MIN_TEXT_CHARS: Final = 6


@dataclass(frozen=True)
class SubjectData:
    """The data that a system finds of a subject: deletes, and texts that identify former items in a log.

    The subject's own id is always such a text. A text must not occur in another subject's data.
    """

    deletes: Sequence[Operation[Any]]
    texts: Sequence[str] = ()


async def erase(
    system: System,
    stores: Stores,
    subject: str,
    *,
    kind: str | None = None,
    dry_run: bool = False,
    compact: bool = True,
) -> Erasure:
    """Delete all data of a subject and return the record of it. Safe to repeat: missing data is not an error.

    `kind` is one of `Privacy.subjects`; it may be left out if there is only one. A `dry_run` counts and
    deletes nothing. Embedded files, of tables and queues, are compacted, so that unused pages hold no copies;
    without `compact` they are not, which is faster, and the proof says so.
    """
    kind = _choose_kind(system, kind)
    if not subject:
        raise InvalidRequest("Invalid subject: the id is empty. Pass the id of the subject to erase.")
    work = _ErasureRun(system, stores, kind, subject)
    await (work.count() if dry_run else work.delete())
    if not dry_run:
        await work.forget(compact)
    await work.list_remainders()
    return Erasure(
        system.name,
        stores.environment,
        kind,
        hashlib.sha256(subject.encode()).hexdigest(),
        stores.clock.now(),
        dry_run,
        dict(work.deleted),
        dict(work.log_records),
        dict(work.backup_items),
        tuple(work.remains),
    )


def _choose_kind(system: System, kind: str | None) -> str:
    """Return the given kind, or the only one; raise `NotFound` if it is unknown or several exist."""
    kinds = list(system.privacy.subjects)
    if kind is None and len(kinds) == 1:
        return kinds[0]
    if kind in system.privacy.subjects:
        return str(kind)
    known = ", ".join(kinds) or "none: declare Privacy(subjects={kind: function})"
    raise NotFound(f"Unknown subject kind {kind!r} in {system.name}: it knows {known}.")


@dataclass
class _ErasureRun:
    """One erasure: what it has deleted, and what remains."""

    system: System
    stores: Stores
    kind: str
    subject: str
    deleted: Counter[str] = field(default_factory=Counter)
    log_records: Counter[str] = field(default_factory=Counter)
    backup_items: Counter[str] = field(default_factory=Counter)
    remains: list[Remainder] = field(default_factory=list)
    _keys: dict[str, list[Item]] = field(default_factory=lambda: defaultdict(list))
    _texts: dict[str, None] = field(default_factory=dict)
    _held: set[tuple[str, str]] = field(default_factory=set)

    # --- delete ---------------------------------------------------------------------------------------------

    async def count(self) -> None:
        """Count what would be deleted."""
        for operation in await self._find():
            self.deleted[_get_resource(operation)] += 1

    async def delete(self) -> None:
        """Delete what the system finds, and search again until nothing is left; give up after
        `MAX_ROUNDS`.
        """
        for _ in range(MAX_ROUNDS):
            found = await self._find()
            if not found:
                return
            for operation in found:
                await self._delete_one(operation)
            if not any(isinstance(operation, Delete) for operation in found):
                return  # objects are deleted by key, whether they exist or not
        self.remains.append(
            Remainder(
                "tables",
                "items that are still being written",
                "until the writer is stopped: then erase again",
            )
        )

    async def _delete_one(self, operation: Operation[Any]) -> None:
        """Run one delete and count it. An object under a legal hold is noted as remaining."""
        try:
            await self.stores.run(operation)
        except ObjectHeld as error:
            self._held.add((_get_resource(operation), error.key))
            return
        self.deleted[_get_resource(operation)] += 1
        if isinstance(operation, Delete):
            self._keys[operation.table.name].append(dict(operation.key))

    async def _find(self) -> list[Operation[Any]]:
        """Return the deletes of the system's function for this kind of subject; keep the texts that it
        returns.
        """
        traces: SubjectData = await self.system.privacy.subjects[self.kind](self.stores, self.subject)
        self._texts |= dict.fromkeys((self.subject, *traces.texts))
        for operation in traces.deletes:
            if not isinstance(operation, Delete | EngineOperation) or not operation.writes:
                raise InvalidRequest(
                    f"Invalid {type(operation).__name__}: it deletes nothing. The function of subject kind "
                    f"{self.kind!r} must return deletes."
                )
        return list(traces.deletes)

    # --- forget ---------------------------------------------------------------------------------------------

    @property
    def _search_texts(self) -> list[str]:
        """The texts that are long enough to search logs and files for."""
        return [text for text in self._texts if len(text) >= MIN_TEXT_CHARS]

    async def forget(self, compact: bool) -> None:
        """On embedded engines, remove traces from change logs and backups, compact the files and scan
        them.
        """
        if (tables := self._get_embedded_tables()) is not None:
            for table in self.system.tables:
                await self._forget_in_table(table, tables)
            await asyncio.to_thread(self._scan_file, tables, compact, "remaining items")
        if (queues := self._get_embedded_queues()) is not None:
            await asyncio.to_thread(self._scan_file, queues, compact, "messages that are not processed yet")

    async def _forget_in_table(self, table: Table, engine: EmbeddedTables) -> None:
        """Remove the traces of the subject from the table's log, stream and backups; note what remains."""
        name, now = self.stores.physical_name(table), self.stores.clock.now()
        try:
            forgotten = await asyncio.to_thread(
                engine.erase_traces, name, self._keys[table.name], self._search_texts
            )
        except NotFound:
            return  # never created here
        if forgotten.records:
            self.log_records[table.name] += forgotten.records
        names = {backup.id: backup.name for backup in await list_backups(table, self.stores)}
        for id, count in forgotten.backup_items.items():
            self.backup_items[f"{table.name}: {names.get(id, id)}"] += count
        if forgotten.keys_kept:
            what = f"keys of {forgotten.keys_kept} changes, without their items"
            self.remains.append(
                Remainder(f"stream of {table.name}", what, format_time(now + STREAM_RETENTION_S))
            )
        if forgotten.mentions:
            what = f"{forgotten.mentions} former states of remaining items that name the subject"
            self.remains.append(
                Remainder(f"change log or backup of {table.name}", what, "until the items are deleted too")
            )
        for id in forgotten.unfinished_backups:
            what = "items as of its start"
            self.remains.append(
                Remainder(
                    f"backup {names.get(id, id)} of {table.name}",
                    what,
                    "until it is complete: then erase again",
                )
            )

    def _get_embedded_tables(self) -> EmbeddedTables | None:
        """Return the embedded tables engine, or None if the tables are in another engine."""
        from holdfast.stores.tables.embedded import EmbeddedTables

        engine = self.stores.tables
        return engine if isinstance(engine, EmbeddedTables) else None

    def _get_embedded_queues(self) -> EmbeddedQueues | None:
        """Return the embedded queue engine, or None if the system has no queues or another engine."""
        from holdfast.stores.queues.embedded import EmbeddedQueues

        try:
            engine = self.stores.engines.get("queues") if self.system.queues else None
        except SettingsError:
            return None  # these stores have none
        return engine if isinstance(engine, EmbeddedQueues) else None

    def _scan_file(self, engine: EmbeddedTables | EmbeddedQueues, compact: bool, living: str) -> None:
        """Compact the engine's file and scan its bytes; note every match as remaining.

        `living` describes current data.
        """
        from holdfast.stores.sqlite.connections import MEMORY

        path = Path(engine.database.path)
        if engine.database.path == MEMORY:
            return
        if not compact:
            what = "copies of deleted data in unused pages, if any"
            self.remains.append(Remainder(path.name, what, "until the file is compacted: then erase again"))
        if (reason := _try_compact(engine, compact)) is not None:
            what = f"former pages of the file ({reason})"
            self.remains.append(
                Remainder(f"{path.name}-wal", what, "until the next checkpoint: then erase again")
            )
        files = [each for each in (path, path.with_name(f"{path.name}-wal")) if each.exists()]
        found = scan_files(files, needles=self._search_texts, kinds=())
        for name, count in Counter(Path(each.file).name for each in found).items():
            what = f"{count} places that name the subject, in data listed here or in {living}"
            self.remains.append(Remainder(name, what, "until that data is gone"))

    # --- remainders -----------------------------------------------------------------------------------------

    async def list_remainders(self) -> None:
        """Note what a service, queues, buckets and legal holds keep."""
        now = self.stores.clock.now()
        if self._get_embedded_tables() is None:
            for table in self.system.tables:
                self.remains += [each async for each in list_service_remainders(table, self.stores, now)]
        self.remains += list_queue_remainders(self.system, now)
        self.remains += list_bucket_remainders(self.system, now)
        self.remains += list_held_remainders(Counter(bucket for bucket, _ in self._held))


def _get_resource(operation: Operation[Any]) -> str:
    """Return the name of the table, bucket or queue that the operation deletes from."""
    if isinstance(operation, EngineOperation):
        return operation.resource
    return operation.table.name if operation.table is not None else operation.kind


def _try_compact(engine: EmbeddedTables | EmbeddedQueues, rewrite: bool) -> str | None:
    """Compact the file and return None, or return the reason why it failed.

    Without `rewrite` only its log is merged.
    """
    try:
        return None if engine.compact(rewrite=rewrite) else "a reader or another process is using them"
    except HoldfastError as error:
        return error.message
