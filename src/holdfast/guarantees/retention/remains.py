"""What an erasure could not reach, and until when it stays."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from holdfast.errors import HoldfastError
from holdfast.guarantees.retention.periods import DAY_S, moment
from holdfast.limits import RECOVERY_DAYS_MAX, STREAM_RETENTION_S
from holdfast.model.system import System
from holdfast.model.tables import Table
from holdfast.operations.tables import BackupSummary, ListBackups
from holdfast.runtime import Stores

UNTIL_DELETED: Final = "until it is deleted"


@dataclass(frozen=True)
class Remainder:
    """`until` is a moment, or what must happen."""

    where: str
    what: str
    until: str


async def in_service(table: Table, stores: Stores, now: float) -> AsyncIterator[Remainder]:
    """What stays of a table's deleted items where the store is a service: nobody can take it out."""
    if table.stream is not None:
        yield Remainder(
            f"stream of {table.name}", "images of the deleted items", moment(now + STREAM_RETENTION_S)
        )
    if table.recovery:
        yield Remainder(
            f"recovery of {table.name}",
            "former states of the deleted items",
            moment(now + RECOVERY_DAYS_MAX * DAY_S),
        )
    try:
        for backup in await backups_of(table, stores):
            until = UNTIL_DELETED if backup.expires_at is None else moment(backup.expires_at)
            yield Remainder(
                f"backup {backup.name} of {table.name}", "items as they were when it was taken", until
            )
    except HoldfastError as error:
        yield Remainder(f"backups of {table.name}", f"unknown: {error.message}", "unknown")


async def backups_of(table: Table, stores: Stores) -> list[BackupSummary]:
    found: list[BackupSummary] = []
    request = ListBackups(stores.physical_name(table), type="ALL")
    while True:
        page = await stores.tables.run(request)
        found += page.backups
        if page.last is None:
            return found
        request = ListBackups(stores.physical_name(table), type="ALL", after=page.last)


def in_queues(system: System, now: float) -> Iterator[Remainder]:
    for queue in system.queues:
        longest = (
            queue.retention_s
            if queue.receives_max is None
            else max(queue.retention_s, queue.dead_retention_s)
        )
        yield Remainder(
            f"queue {queue.name}",
            "messages of the subject that are not worked off yet",
            moment(now + longest),
        )


def in_buckets(system: System, now: float) -> Iterator[Remainder]:
    """What an erasure cannot see, in the same words however often it is repeated: once the items that named an object
    are deleted, nobody can tell whether there was one.
    """
    for bucket in system.buckets:
        for shelf in bucket.shelves:
            days = shelf.lifetime_days
            yield Remainder(
                f"bucket {bucket.name}",
                f"objects of the subject that the system did not find, if there are any: {shelf.template}",
                UNTIL_DELETED if days is None else moment(now + days * DAY_S),
            )
        if bucket.holds or bucket.versions:
            yield Remainder(
                f"bucket {bucket.name}",
                "former versions of such objects, if the store keeps versions: what is deleted by the erasure loses all "
                "of its own",
                "until the store's rule for former versions removes them",
            )


def held(objects: Mapping[str, int]) -> Iterator[Remainder]:
    for bucket, count in objects.items():
        what = f"{count} objects of the subject under a legal hold"
        yield Remainder(f"bucket {bucket}", what, "until the hold is lifted: erase again")
