"""Erasure: all that a system finds of a subject is deleted, then forgotten by change logs and backups.

    find → delete → (embedded) forget in logs and backups → write the files anew → look again → proof

The system says how its items are found (`System.subjects`). On the embedded engine what deletion leaves behind is
taken out too; a service keeps it for a time that the proof names.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from holdfast.errors import HoldfastError, InvalidRequest, NotFound, ObjectHeld, SettingsError
from holdfast.guarantees.retention.periods import moment
from holdfast.guarantees.retention.proof import Erasure
from holdfast.guarantees.retention.remains import (
    Remainder,
    backups_of,
    held,
    in_buckets,
    in_queues,
    in_service,
)
from holdfast.guarantees.scanning import scan_files
from holdfast.limits import STREAM_RETENTION_S
from holdfast.model.operations import EngineOperation, Operation
from holdfast.model.system import System
from holdfast.model.tables import Table
from holdfast.model.writes import Delete
from holdfast.operations.values import Item
from holdfast.runtime import Stores
from holdfast.stores.queues.embedded import EmbeddedQueues
from holdfast.stores.sqlite.connections import MEMORY
from holdfast.stores.tables.embedded import EmbeddedTables

# A worker may write while the subject is erased; whoever still does after so many rounds must be stopped first.
ROUNDS_MAX: Final = 5
# A shorter text is in too much that is not the subject's: it finds items by their keys alone.
TEXT_CHARS_MIN: Final = 6


@dataclass(frozen=True)
class Traces:
    """What a system finds of a subject: what deletes it, and texts by which its former items are known in a log.

    The subject's own id is such a text already. A text must be nobody else's.
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
    """Deletes what belongs to a subject. It may be repeated: what is gone already is no error.

    Embedded files, of tables and of queues, are written anew, so that their unused pages hold nothing either; without
    `compact` they are not, which is quicker, and the proof says so.
    """
    kind = _chosen(system, kind)
    if not subject:
        raise InvalidRequest("An erasure needs the id of a subject, and an empty one was given.")
    work = _Work(system, stores, kind, subject)
    await (work.count() if dry_run else work.delete())
    if not dry_run:
        await work.forget(compact)
    await work.name_remains()
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


def _chosen(system: System, kind: str | None) -> str:
    kinds = list(system.subjects)
    if kind is None and len(kinds) == 1:
        return kinds[0]
    if kind in system.subjects:
        return str(kind)
    known = ", ".join(kinds) or "none: declare System(subjects={kind: function})"
    raise NotFound(f"{system.name} does not know what a subject of the kind {kind!r} is: it knows {known}.")


@dataclass
class _Work:
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

    # --- what the system finds ------------------------------------------------------------------------------

    async def count(self) -> None:
        for operation in await self._found():
            self.deleted[_place_of(operation)] += 1

    async def delete(self) -> None:
        for _ in range(ROUNDS_MAX):
            found = await self._found()
            if not found:
                return
            for operation in found:
                await self._delete_one(operation)
            if not any(isinstance(operation, Delete) for operation in found):
                return  # objects are deleted by key, whether they are there or not
        self.remains.append(
            Remainder(
                "tables", "items that are still being written", "until their writer is stopped: erase again"
            )
        )

    async def _delete_one(self, operation: Operation[Any]) -> None:
        try:
            await self.stores.run(operation)
        except ObjectHeld as error:
            self._held.add((_place_of(operation), error.key))
            return
        self.deleted[_place_of(operation)] += 1
        if isinstance(operation, Delete):
            self._keys[operation.table.name].append(dict(operation.address))

    async def _found(self) -> list[Operation[Any]]:
        traces: Traces = await self.system.subjects[self.kind](self.stores, self.subject)
        self._texts |= dict.fromkeys((self.subject, *traces.texts))
        for operation in traces.deletes:
            if not isinstance(operation, Delete | EngineOperation) or not operation.writes:
                raise InvalidRequest(
                    f"{type(operation).__name__} deletes nothing: the function of the subject {self.kind!r} gives deletes."
                )
        return list(traces.deletes)

    # --- what deletion leaves behind ------------------------------------------------------------------------

    @property
    def _texts_sought(self) -> list[str]:
        return [text for text in self._texts if len(text) >= TEXT_CHARS_MIN]

    async def forget(self, compact: bool) -> None:
        engine = self.stores.tables
        if isinstance(engine, EmbeddedTables):
            for table in self.system.tables:
                await self._forget_in(table, engine)
            await asyncio.to_thread(self._look_again, engine, compact, "items that live on")
        if (queues := self._embedded_queues()) is not None:
            await asyncio.to_thread(self._look_again, queues, compact, "messages that are not worked off yet")

    async def _forget_in(self, table: Table, engine: EmbeddedTables) -> None:
        name, now = self.stores.physical_name(table), self.stores.clock.now()
        try:
            forgotten = await asyncio.to_thread(
                engine.forget, name, self._keys[table.name], self._texts_sought
            )
        except NotFound:
            return  # never created here
        if forgotten.records:
            self.log_records[table.name] += forgotten.records
        names = {backup.id: backup.name for backup in await backups_of(table, self.stores)}
        for id, count in forgotten.backup_items.items():
            self.backup_items[f"{table.name}: {names.get(id, id)}"] += count
        if forgotten.keys_kept:
            what = f"keys of {forgotten.keys_kept} changes, without their items"
            self.remains.append(Remainder(f"stream of {table.name}", what, moment(now + STREAM_RETENTION_S)))
        if forgotten.mentions:
            what = f"{forgotten.mentions} former states of items that live on and name the subject"
            self.remains.append(
                Remainder(f"change log or backup of {table.name}", what, "until the items are deleted too")
            )
        for id in forgotten.unfinished_backups:
            what = "items as they were when it was begun"
            self.remains.append(
                Remainder(
                    f"backup {names.get(id, id)} of {table.name}", what, "until it is taken: erase again"
                )
            )

    def _embedded_queues(self) -> EmbeddedQueues | None:
        try:
            engine = self.stores.engines.of("queues") if self.system.queues else None
        except SettingsError:
            return None  # these stores have none
        return engine if isinstance(engine, EmbeddedQueues) else None

    def _look_again(self, engine: EmbeddedTables | EmbeddedQueues, compact: bool, living: str) -> None:
        """The file itself, read as bytes: what is found there has remained, whatever the reason."""
        path = Path(engine.database.path)
        if engine.database.path == MEMORY:
            return
        if not compact:
            what = "copies of what was deleted in the unused part of pages, if there are any"
            self.remains.append(Remainder(path.name, what, "until the file is compacted: erase again"))
        if (reason := _not_compacted(engine, compact)) is not None:
            what = f"former pages of the file ({reason})"
            self.remains.append(Remainder(f"{path.name}-wal", what, "until the next checkpoint: erase again"))
        files = [each for each in (path, path.with_name(f"{path.name}-wal")) if each.exists()]
        found = scan_files(files, needles=self._texts_sought, kinds=())
        for name, count in Counter(Path(each.file).name for each in found).items():
            what = f"{count} places that name the subject, in what is named here or in {living}"
            self.remains.append(Remainder(name, what, "until those are gone"))

    # --- what remains ---------------------------------------------------------------------------------------

    async def name_remains(self) -> None:
        now = self.stores.clock.now()
        if not isinstance(self.stores.tables, EmbeddedTables):
            for table in self.system.tables:
                self.remains += [each async for each in in_service(table, self.stores, now)]
        self.remains += in_queues(self.system, now)
        self.remains += in_buckets(self.system, now)
        self.remains += held(Counter(bucket for bucket, _ in self._held))


def _place_of(operation: Operation[Any]) -> str:
    if isinstance(operation, EngineOperation):
        return operation.resource
    return operation.table.name if operation.table is not None else operation.kind


def _not_compacted(engine: EmbeddedTables | EmbeddedQueues, rewrite: bool) -> str | None:
    """Why the file could not be compacted; None where it was."""
    try:
        return None if engine.compact(rewrite=rewrite) else "a reader or another process is using them"
    except HoldfastError as error:
        return error.message
