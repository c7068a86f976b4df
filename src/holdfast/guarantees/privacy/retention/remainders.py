"""Data that an erasure could not reach, and until when it stays."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from holdfast.core.errors import HoldfastError
from holdfast.core.limits import MAX_RECOVERY_DAYS, STREAM_RETENTION_S
from holdfast.guarantees.privacy.retention.periods import DAY_S, format_time
from holdfast.model.system import System
from holdfast.model.tables import Table
from holdfast.operations.tables import BackupSummary, ListBackups
from holdfast.runtime import Stores

UNTIL_DELETED: Final = "until it is deleted"


@dataclass(frozen=True)
class Remainder:
    """Remaining data. `until` is a time, or the event that must happen."""

    where: str
    what: str
    until: str


async def list_service_remainders(table: Table, stores: Stores, now: float) -> AsyncIterator[Remainder]:
    """Yield what a managed service keeps of a table's deleted items, which no client can remove."""
    if table.stream is not None:
        yield Remainder(
            f"stream of {table.name}", "images of the deleted items", format_time(now + STREAM_RETENTION_S)
        )
    if table.point_in_time_recovery:
        yield Remainder(
            f"recovery of {table.name}",
            "former states of the deleted items",
            format_time(now + MAX_RECOVERY_DAYS * DAY_S),
        )
    try:
        for backup in await list_backups(table, stores):
            until = UNTIL_DELETED if backup.expires_at is None else format_time(backup.expires_at)
            yield Remainder(f"backup {backup.name} of {table.name}", "items as of the backup", until)
    except HoldfastError as error:
        yield Remainder(f"backups of {table.name}", f"unknown: {error.message}", "unknown")


async def list_backups(table: Table, stores: Stores) -> list[BackupSummary]:
    """Return all backups of the table, over all pages."""
    found: list[BackupSummary] = []
    request = ListBackups(stores.physical_name(table), type="ALL")
    while True:
        page = await stores.tables.run(request)
        found += page.backups
        if page.last is None:
            return found
        request = ListBackups(stores.physical_name(table), type="ALL", after=page.last)


def list_queue_remainders(system: System, now: float) -> Iterator[Remainder]:
    """Yield for each queue the time until which its messages, dead letters included, can stay."""
    for queue in system.queues:
        longest = (
            queue.retention_s
            if queue.max_receives is None
            else max(queue.retention_s, queue.dead_retention_s)
        )
        yield Remainder(
            f"queue {queue.name}",
            "messages of the subject that are not processed yet",
            format_time(now + longest),
        )


def list_bucket_remainders(system: System, now: float) -> Iterator[Remainder]:
    """Yield for each bucket the objects and former versions that an erasure cannot see, and until when they
    stay.

    The words are the same on every repeat: once the items that named an object are deleted, its existence is
    unknown.
    """
    for bucket in system.buckets:
        for kind in bucket.object_kinds:
            days = kind.lifetime_days
            yield Remainder(
                f"bucket {bucket.name}",
                f"objects of the subject that the system did not find, if any: {kind.template}",
                UNTIL_DELETED if days is None else format_time(now + days * DAY_S),
            )
        if bucket.legal_holds or bucket.versions:
            yield Remainder(
                f"bucket {bucket.name}",
                "former versions of such objects, if the store keeps versions; objects that the erasure "
                "deletes lose all of their versions",
                "until the store's rule for former versions removes them",
            )


def list_held_remainders(objects: Mapping[str, int]) -> Iterator[Remainder]:
    """Yield for each bucket its number of objects that a legal hold kept; `objects` has these numbers by
    bucket.
    """
    for bucket, count in objects.items():
        what = f"{count} objects of the subject under a legal hold"
        yield Remainder(f"bucket {bucket}", what, "until the hold is lifted: then erase again")
