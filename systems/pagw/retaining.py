"""Retention: requests that ended longer ago than the policy says are removed, with all that there is of them.

    rows (request, lookups, deliveries, counters) in one transaction with its audit and a note of where its files are
    → the files → the note
    audit rows of their own age → their files

Rows go first: no row may point at a file that is not there. The note (`pagw.forgotten`) has the folder of the request, which
is that of the month in which it was created, however long ago that is, and stays until nothing is in it: a run that dies
is finished by the next. The lifecycle of the buckets stands behind both.

The policy is PAGW_RETENTION_YEARS, 7 by default. HIPAA wants documentation kept for six years (45 CFR 164.316(b)(2)(i) and
164.530(j)), which is the least that can be set; the seventh is policy. What is under a legal hold stays. The audit outlives
its requests: each of its rows stays for as long as the policy says, counted from itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from holdfast import (
    DeleteObject,
    Rate,
    SqlChange,
    SqlOne,
    SqlReturning,
    SqlRow,
    SqlRows,
    Stores,
    pattern,
)
from holdfast.errors import ObjectHeld
from holdfast.guarantees import Period
from pagw import holds
from pagw.auditing import NO_REQUEST, Actor, AuditEvent, audited
from pagw.model import RETENTION_DAYS, audit_event, pagw
from pagw.settings import PagwSettings
from pagw.sweeping import remove_file, remove_files

SERVICE: Final = "sweeper"
BATCH: Final = 200
EVERY_S: Final = 24 * 3600
PERIOD: Final = Period.of(
    timedelta(days=RETENTION_DAYS),
    "since a request ended, or an audit event happened; PAGW_RETENTION_YEARS says otherwise, and a legal hold outlives it",
)
RETENTION: Final = Rate(per="run of retention")
_NOW: Final = datetime(2019, 11, 2, 9, tzinfo=UTC)
_ID: Final = "PAGW-01JBEXAMPLE000000000000000"

Progress = Callable[[str, int, int], None]


class Outlived(SqlRow):
    pagw_id: str
    created_at: datetime


class OutlivedAudit(SqlRow):
    id: int
    event_uuid: str
    pagw_id: str | None
    timestamp: datetime
    service_name: str


class Amounts(SqlRow):
    requests: int
    held: int
    audit_rows: int


@pattern("R10", "How much has outlived its retention", rate=RETENTION, example=(_NOW,))
def outlived(until: datetime) -> SqlOne[Amounts]:
    return pagw.one(
        Amounts,
        """SELECT COUNT(*) FILTER (WHERE hold.pagw_id IS NULL) AS requests, COUNT(hold.pagw_id) AS held,
                  (SELECT COUNT(*) FROM pagw.audit_log AS audit
                   WHERE audit.timestamp < %(until)s
                     AND NOT EXISTS (SELECT 1 FROM pagw.legal_holds AS held WHERE held.pagw_id = audit.pagw_id)
                     AND NOT EXISTS (SELECT 1 FROM pagw.request_tracker AS young WHERE young.pagw_id = audit.pagw_id
                         AND (young.completed_at IS NULL OR young.completed_at >= %(until)s))) AS audit_rows
           FROM pagw.request_tracker AS request LEFT JOIN pagw.legal_holds AS hold USING (pagw_id)
           WHERE request.created_at < %(until)s AND request.completed_at < %(until)s
             AND request.status IN ('COMPLETED', 'FAILED', 'CANCELLED')""",
        until=until,
    )


@pattern(
    "R11", "Lock some requests that have outlived their retention", rate=RETENTION, example=(_NOW, BATCH)
)
def lock_outlived(until: datetime, count: int) -> SqlReturning[Outlived]:
    """Locked, so that nobody places a hold on them meanwhile; who is placing one has the lock, and they are skipped."""
    return pagw.returning(
        Outlived,
        """SELECT {columns} FROM pagw.request_tracker
           WHERE created_at < %(until)s AND completed_at < %(until)s AND status IN ('COMPLETED', 'FAILED', 'CANCELLED')
             AND NOT EXISTS (SELECT 1 FROM pagw.legal_holds AS hold WHERE hold.pagw_id = request_tracker.pagw_id)
           ORDER BY created_at LIMIT %(count)s FOR UPDATE SKIP LOCKED""",
        until=until,
        count=count,
    )


@pattern("R12", "Remove the counters of requests' announcements", rate=RETENTION, example=([_ID],))
def remove_counters(pagw_ids: Sequence[str]) -> SqlChange:
    """Of the requests and of their deliveries, while these are known."""
    return pagw.change(
        """DELETE FROM pagw.outbox_counter WHERE aggregate IN (
               SELECT unnest(%(pagw_ids)s::text[])
               UNION ALL SELECT delivery_id FROM pagw.deliveries WHERE pagw_id = ANY(%(pagw_ids)s::text[]))""",
        pagw_ids=tuple(pagw_ids),
    )


@pattern("R13", "Remove requests, with their lookups and deliveries", rate=RETENTION, example=([_ID],))
def remove_requests(pagw_ids: Sequence[str]) -> SqlReturning[Outlived]:
    """Looks for holds again, now that they are locked."""
    return pagw.returning(
        Outlived,
        """DELETE FROM pagw.request_tracker WHERE pagw_id = ANY(%(pagw_ids)s::text[])
             AND NOT EXISTS (SELECT 1 FROM pagw.legal_holds AS hold WHERE hold.pagw_id = request_tracker.pagw_id)
           RETURNING {columns}""",
        pagw_ids=tuple(pagw_ids),
    )


@pattern("R14", "Let audit rows go that are older than a moment", rate=RETENTION, example=(_NOW,))
def release_audit(until: datetime) -> SqlChange:
    """For the rest of the transaction: the table's trigger refuses every removal otherwise."""
    return pagw.change(
        "SELECT set_config('pagw.retained_until', %(until)s::timestamptz::text, true)", until=until
    )


@pattern(
    "R15", "Remove some audit rows that have outlived their retention", rate=RETENTION, example=(_NOW, BATCH)
)
def remove_audit(until: datetime, count: int) -> SqlReturning[OutlivedAudit]:
    """Not those of a request that is there: its trail stays whole for as long as it does."""
    return pagw.returning(
        OutlivedAudit,
        """DELETE FROM pagw.audit_log WHERE id IN (
               SELECT audit.id FROM pagw.audit_log AS audit
               WHERE audit.timestamp < %(until)s
                 AND NOT EXISTS (SELECT 1 FROM pagw.legal_holds AS hold WHERE hold.pagw_id = audit.pagw_id)
                 AND NOT EXISTS (SELECT 1 FROM pagw.request_tracker AS request WHERE request.pagw_id = audit.pagw_id)
               ORDER BY audit.timestamp LIMIT %(count)s)
           RETURNING {columns}""",
        until=until,
        count=count,
    )


@pattern(
    "R16",
    "Remove the file of an audit event",
    rate=RETENTION,
    example=(_NOW, "pasorchestrator", _ID, "00000000-0000-4000-8000-000000000000"),
)
def remove_audit_file(created_at: datetime, service: str, pagw_id: str, uuid: str) -> DeleteObject:
    return audit_event.delete(created_at=created_at, service=service, pagw_id=pagw_id, uuid=uuid)


@pattern("R18", "Note whose files are to be removed", rate=RETENTION, example=([_ID], [_NOW], _NOW))
def note_forgotten(pagw_ids: Sequence[str], created_at: Sequence[datetime], at: datetime) -> SqlChange:
    return pagw.change(
        """INSERT INTO pagw.forgotten (pagw_id, created_at, forgotten_at)
           SELECT gone.pagw_id, gone.created_at, %(at)s
           FROM unnest(%(pagw_ids)s::text[], %(created_at)s::timestamptz[]) AS gone (pagw_id, created_at)
           ON CONFLICT (pagw_id) DO NOTHING""",
        pagw_ids=tuple(pagw_ids),
        created_at=tuple(created_at),
        at=at,
    )


@pattern("R19", "Requests whose files are to be removed", rate=RETENTION, example=())
def forgotten(after: str = "", limit: int = BATCH) -> SqlRows[Outlived]:
    return pagw.rows(
        Outlived,
        """SELECT {columns} FROM pagw.forgotten WHERE pagw_id > %(after)s ORDER BY pagw_id LIMIT %(limit)s""",
        after=after,
        limit=limit,
    )


@pattern("R20", "Note that no file is left of a request", rate=RETENTION, example=(_ID,))
def forget(pagw_id: str) -> SqlChange:
    return pagw.change("DELETE FROM pagw.forgotten WHERE pagw_id = %(pagw_id)s", pagw_id=pagw_id).repeatable()


class EndedSubscription(SqlRow):
    subscription_id: str
    tenant: str


@pattern("R17", "Remove subscriptions that ended long ago", rate=RETENTION, example=(_NOW,))
def remove_subscriptions(until: datetime) -> SqlReturning[EndedSubscription]:
    """Their files are left without a row, and the sweeper takes them."""
    return pagw.returning(
        EndedSubscription,
        """DELETE FROM pagw.subscriptions WHERE status = 'off' AND updated_at < %(until)s RETURNING {columns}""",
        until=until,
    )


READS: Final = (outlived, forgotten, holds.files_of)
WRITES: Final = (
    lock_outlived,
    note_forgotten,
    forget,
    remove_requests,
    remove_counters,
    release_audit,
    remove_audit,
    remove_audit_file,
    remove_subscriptions,
    remove_file,
)


@dataclass
class Retained:
    """What was removed, or would be. `until` is the moment before which it had ended."""

    until: datetime
    years: int
    dry_run: bool
    requests: int = 0
    files: int = 0
    audit_rows: int = 0
    subscriptions: int = 0
    held: int = 0


async def retain(
    stores: Stores, settings: PagwSettings, *, dry_run: bool = False, progress: Progress | None = None
) -> Retained:
    """Safe in several processes at once, and after any of them has died."""
    now = datetime.fromtimestamp(stores.clock.now(), UTC)
    years = settings.retention_years
    work = _Work(stores, Retained(now - span_of(years), years, dry_run), progress)
    await work.count()
    if not dry_run:
        await work.remove()
    return work.done


def span_of(years: int) -> timedelta:
    """So many years, with as many leap days as there can be in them."""
    return timedelta(days=365 * years + (years + 3) // 4)


@dataclass
class _Work:
    stores: Stores
    done: Retained
    progress: Progress | None
    _whole: int = field(default=0, init=False)

    async def count(self) -> None:
        found = await self.stores.run(outlived(self.done.until))
        if found is None:
            return
        self._whole, self.done.held = found.requests, found.held
        if self.done.dry_run:
            self.done.requests, self.done.audit_rows = found.requests, found.audit_rows

    async def remove(self) -> None:
        await self._remove_files()
        while removed := await self._remove_requests():
            self.done.requests += len(removed)
            self._tell()
            await self._remove_files()
        while rows := await self._remove_audit():
            self.done.audit_rows += len(rows)
            for row in rows:
                self.done.files += await self._remove_audit_file(row)
        self.done.subscriptions = len(await self.stores.run(remove_subscriptions(self.done.until)))

    async def _remove_requests(self) -> tuple[Outlived, ...]:
        async with self.stores.transaction() as sql:
            locked = await sql.run(lock_outlived(self.done.until, BATCH))
            if not locked:
                return ()
            ids = [each.pagw_id for each in locked]
            await sql.run(remove_counters(ids))
            removed = await sql.run(remove_requests(ids))
            at = datetime.fromtimestamp(self.stores.clock.now(), UTC)
            gone = [each.pagw_id for each in removed]
            await sql.run(note_forgotten(gone, [each.created_at for each in removed], at))
            for write in audited(self.stores, self._event([each.pagw_id for each in removed])):
                await sql.run(write)
        return removed

    async def _remove_files(self) -> None:
        """Of all whose rows are gone, by this run or by one that died. What is held stays, and so does its note."""
        after = ""
        while found := await self.stores.run(forgotten(after)):
            for each in found:
                keys = [key async for key in holds.keys_of(self.stores, each.created_at, each.pagw_id)]
                removed = await remove_files(self.stores, keys)
                self.done.files += removed
                if removed == len(keys):
                    await self.stores.run(forget(each.pagw_id))
            after = found[-1].pagw_id

    async def _remove_audit(self) -> tuple[OutlivedAudit, ...]:
        async with self.stores.transaction() as sql:
            await sql.run(release_audit(self.done.until))
            return await sql.run(remove_audit(self.done.until, BATCH))

    async def _remove_audit_file(self, row: OutlivedAudit) -> int:
        remove = remove_audit_file(row.timestamp, row.service_name, row.pagw_id or NO_REQUEST, row.event_uuid)
        try:
            await self.stores.run(remove)
        except ObjectHeld:
            return 0
        return 1

    def _event(self, pagw_ids: list[str]) -> AuditEvent:
        details: dict[str, Any] = {"years": self.done.years, "requests": pagw_ids}
        return AuditEvent(
            type="RETENTION",
            subtype="removed",
            actor=Actor("system", SERVICE),
            service=SERVICE,
            resource_type="requests",
            details=details,
        )

    def _tell(self) -> None:
        if self.progress is not None:
            self.progress("requests removed", self.done.requests, max(self._whole, self.done.requests))
