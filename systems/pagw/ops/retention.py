"""Retention: removal of requests that ended longer ago than the policy allows, with all their data.

    rows (request, lookups, deliveries, counters) in one transaction with its audit and a note of its files
    → the files → the note
    audit rows by their own age → their files

Rows go first: no row may point at a missing file. The note (`pagw.forgotten`) has the request's folder, that
of the month in which it was created, and stays until the folder is empty: the next run finishes an
interrupted one. The buckets' lifecycle rules are the fallback for both.

The policy is PAGW_RETENTION_YEARS, 7 by default. HIPAA requires documentation for six years (45 CFR
164.316(b)(2)(i) and 164.530(j)), which is the minimum of the setting; the seventh is policy. Requests under a
legal hold stay. The audit outlives its requests: each row stays for the retention period, counted from its
own time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from holdfast import Pattern, Rate, Stores, pattern
from holdfast.core.errors import ObjectHeld
from holdfast.guarantees import Period
from holdfast.model.objects import DeleteObject
from holdfast.model.sql import SqlChange, SqlOne, SqlReturning, SqlRow, SqlRows
from pagw.model.audit import NO_REQUEST, Actor, AuditEvent, build_audit_writes
from pagw.model.entities import IDEMPOTENCY_HOURS, RETENTION_DAYS, audit_event, pagw
from pagw.ops import legal_holds
from pagw.settings import PagwSettings
from pagw.workers.sweeper import remove_file, remove_files

SERVICE: Final = "sweeper"
BATCH_SIZE: Final = 200
INTERVAL_S: Final = 24 * 3600
RETENTION_PERIOD: Final = Period.from_timedelta(
    timedelta(days=RETENTION_DAYS),
    "since a request ended or an audit event happened; PAGW_RETENTION_YEARS changes it, and a legal hold "
    "overrides it",
)
PER_RETENTION_RUN: Final = Rate(per="run of retention")
_NOW: Final = datetime(2019, 11, 2, 9, tzinfo=UTC)
_ID: Final = "PAGW-01JBEXAMPLE000000000000000"

Progress = Callable[[str, int, int], None]


class ExpiredRequest(SqlRow):
    """A request whose rows or files retention removes."""

    pagw_id: str
    created_at: datetime


class ExpiredAuditEvent(SqlRow):
    """An audit row that retention removed, with what names its file."""

    id: int
    event_uuid: str
    pagw_id: str | None
    timestamp: datetime
    service_name: str


class ExpiredCounts(SqlRow):
    """The numbers of expired requests, of held ones among them, and of expired audit rows."""

    requests: int
    held: int
    audit_rows: int


# The record of a key has expired by then.
PLAIN_KEY_AGE: Final = timedelta(hours=IDEMPOTENCY_HOURS)


@pattern("R10", "Number of expired requests and audit rows", rate=PER_RETENTION_RUN, example=(_NOW,))
def outlived(until: datetime) -> SqlOne[ExpiredCounts]:
    """Count the requests that ended before `until`, with and without a legal hold, and the audit rows that
    may be removed with them.
    """
    return pagw.one(
        ExpiredCounts,
        """SELECT COUNT(*) FILTER (WHERE hold.pagw_id IS NULL) AS requests, COUNT(hold.pagw_id) AS held,
                  (SELECT COUNT(*) FROM pagw.audit_log AS audit
                   WHERE audit.timestamp < %(until)s
                     AND NOT EXISTS (SELECT 1 FROM pagw.legal_holds AS held
                         WHERE held.pagw_id = audit.pagw_id)
                     AND NOT EXISTS (SELECT 1 FROM pagw.request_tracker AS young
                         WHERE young.pagw_id = audit.pagw_id
                         AND (young.completed_at IS NULL OR young.completed_at >= %(until)s))) AS audit_rows
           FROM pagw.request_tracker AS request LEFT JOIN pagw.legal_holds AS hold USING (pagw_id)
           WHERE request.created_at < %(until)s AND request.completed_at < %(until)s
             AND request.status IN ('COMPLETED', 'FAILED', 'CANCELLED')""",
        until=until,
    )


@pattern("R11", "Lock some expired requests", rate=PER_RETENTION_RUN, example=(_NOW, BATCH_SIZE))
def lock_outlived(until: datetime, count: int) -> SqlReturning[ExpiredRequest]:
    """Lock expired requests, so that no hold is placed on them meanwhile. Requests on which a hold is being
    placed are skipped.
    """
    return pagw.returning(
        ExpiredRequest,
        """SELECT {columns} FROM pagw.request_tracker
           WHERE created_at < %(until)s AND completed_at < %(until)s
               AND status IN ('COMPLETED', 'FAILED', 'CANCELLED')
             AND NOT EXISTS (SELECT 1 FROM pagw.legal_holds AS hold
                 WHERE hold.pagw_id = request_tracker.pagw_id)
           ORDER BY created_at LIMIT %(count)s FOR UPDATE SKIP LOCKED""",
        until=until,
        count=count,
    )


@pattern("R12", "Remove the outbox counters of requests", rate=PER_RETENTION_RUN, example=([_ID],))
def remove_counters(pagw_ids: Sequence[str]) -> SqlChange:
    """Remove the counters of requests and of their deliveries, before the deliveries are removed."""
    return pagw.change(
        """DELETE FROM pagw.outbox_counter WHERE aggregate IN (
               SELECT unnest(%(pagw_ids)s::text[])
               UNION ALL SELECT delivery_id FROM pagw.deliveries
                      WHERE pagw_id = ANY(%(pagw_ids)s::text[]))""",
        pagw_ids=tuple(pagw_ids),
    )


@pattern(
    "R13", "Remove requests, with their lookups and deliveries", rate=PER_RETENTION_RUN, example=([_ID],)
)
def remove_requests(pagw_ids: Sequence[str]) -> SqlReturning[ExpiredRequest]:
    """Delete the locked requests. It checks for holds again, now under the lock."""
    return pagw.returning(
        ExpiredRequest,
        """DELETE FROM pagw.request_tracker WHERE pagw_id = ANY(%(pagw_ids)s::text[])
             AND NOT EXISTS (SELECT 1 FROM pagw.legal_holds AS hold
                 WHERE hold.pagw_id = request_tracker.pagw_id)
           RETURNING {columns}""",
        pagw_ids=tuple(pagw_ids),
    )


@pattern(
    "R21",
    "Remove idempotency keys that are stored as text",
    rate=PER_RETENTION_RUN,
    example=(_NOW, BATCH_SIZE),
)
def remove_plain_keys(before: datetime, count: int) -> SqlChange:
    """Remove the clients' own keys from the rows of requests created before a time. Version 0.2 stored them;
    their records have expired.
    """
    return pagw.change(
        """UPDATE pagw.request_tracker SET metadata = metadata - 'idempotencyKey'
           WHERE pagw_id IN (
               SELECT pagw_id FROM pagw.request_tracker
               WHERE created_at < %(before)s AND metadata ->> 'idempotencyKey' NOT LIKE '%%:hmac-%%'
               LIMIT %(count)s)""",
        before=before,
        count=count,
    ).idempotent()


@pattern("R14", "Allow the removal of audit rows older than a time", rate=PER_RETENTION_RUN, example=(_NOW,))
def release_audit(until: datetime) -> SqlChange:
    """Allow removals for the rest of the transaction. Otherwise the table's trigger refuses them."""
    return pagw.change(
        "SELECT set_config('pagw.retained_until', %(until)s::timestamptz::text, true)", until=until
    )


@pattern("R15", "Remove some expired audit rows", rate=PER_RETENTION_RUN, example=(_NOW, BATCH_SIZE))
def remove_audit(until: datetime, count: int) -> SqlReturning[ExpiredAuditEvent]:
    """Delete expired audit rows, except those of existing requests, whose trail stays complete."""
    return pagw.returning(
        ExpiredAuditEvent,
        """DELETE FROM pagw.audit_log WHERE id IN (
               SELECT audit.id FROM pagw.audit_log AS audit
               WHERE audit.timestamp < %(until)s
                 AND NOT EXISTS (SELECT 1 FROM pagw.legal_holds AS hold WHERE hold.pagw_id = audit.pagw_id)
                 AND NOT EXISTS (SELECT 1 FROM pagw.request_tracker AS request
                     WHERE request.pagw_id = audit.pagw_id)
               ORDER BY audit.timestamp LIMIT %(count)s)
           RETURNING {columns}""",
        until=until,
        count=count,
    )


@pattern(
    "R16",
    "Remove the file of an audit event",
    rate=PER_RETENTION_RUN,
    example=(_NOW, "pasorchestrator", _ID, "00000000-0000-4000-8000-000000000000"),
)
def remove_audit_file(created_at: datetime, service: str, pagw_id: str, uuid: str) -> DeleteObject:
    return audit_event.delete(created_at=created_at, service=service, pagw_id=pagw_id, uuid=uuid)


@pattern(
    "R18",
    "Record requests whose files remain to be removed",
    rate=PER_RETENTION_RUN,
    example=([_ID], [_NOW], _NOW),
)
def note_forgotten(pagw_ids: Sequence[str], created_at: Sequence[datetime], at: datetime) -> SqlChange:
    """Record requests whose rows are removed and whose files are not. The two lists correspond."""
    return pagw.change(
        """INSERT INTO pagw.forgotten (pagw_id, created_at, forgotten_at)
           SELECT gone.pagw_id, gone.created_at, %(at)s
           FROM unnest(%(pagw_ids)s::text[], %(created_at)s::timestamptz[]) AS gone (pagw_id, created_at)
           ON CONFLICT (pagw_id) DO NOTHING""",
        pagw_ids=tuple(pagw_ids),
        created_at=tuple(created_at),
        at=at,
    )


@pattern("R19", "Requests whose files remain to be removed", rate=PER_RETENTION_RUN, example=())
def forgotten(after: str = "", limit: int = BATCH_SIZE) -> SqlRows[ExpiredRequest]:
    """Select a page of the requests whose files remain to be removed, those after an id."""
    return pagw.rows(
        ExpiredRequest,
        """SELECT {columns} FROM pagw.forgotten WHERE pagw_id > %(after)s ORDER BY pagw_id LIMIT %(limit)s""",
        after=after,
        limit=limit,
    )


@pattern("R20", "Record that all files of a request are removed", rate=PER_RETENTION_RUN, example=(_ID,))
def forget(pagw_id: str) -> SqlChange:
    """Delete the record of a removed request, after its last file."""
    return pagw.change("DELETE FROM pagw.forgotten WHERE pagw_id = %(pagw_id)s", pagw_id=pagw_id).idempotent()


class EndedSubscription(SqlRow):
    """A subscription that retention removed."""

    subscription_id: str
    tenant: str


@pattern("R17", "Remove expired subscriptions", rate=PER_RETENTION_RUN, example=(_NOW,))
def remove_subscriptions(until: datetime) -> SqlReturning[EndedSubscription]:
    """Delete the rows. The sweeper removes their files, which no row points at any more."""
    return pagw.returning(
        EndedSubscription,
        """DELETE FROM pagw.subscriptions WHERE status = 'off' AND updated_at < %(until)s
               RETURNING {columns}""",
        until=until,
    )


PATTERNS: Final[tuple[Pattern[..., Any], ...]] = (
    outlived,
    forgotten,
    legal_holds.files_of,
    lock_outlived,
    note_forgotten,
    forget,
    remove_requests,
    remove_counters,
    remove_plain_keys,
    release_audit,
    remove_audit,
    remove_audit_file,
    remove_subscriptions,
    remove_file,
)


@dataclass
class RetentionReport:
    """The counts of a retention run, or of its dry run. Everything that ended before `until` has expired."""

    until: datetime
    years: int
    dry_run: bool
    requests: int = 0
    files: int = 0
    audit_rows: int = 0
    subscriptions: int = 0
    held: int = 0


async def apply_retention(
    stores: Stores, settings: PagwSettings, *, dry_run: bool = False, progress: Progress | None = None
) -> RetentionReport:
    """Remove expired data and return the counts. Safe to run in several processes and after a crash.
    `dry_run` only counts expired requests and audit rows.
    """
    now = stores.now()
    years = settings.retention_years
    run = _RetentionRun(stores, RetentionReport(now - compute_span(years), years, dry_run), progress)
    await run.count()
    if not dry_run:
        await run.remove()
    return run.report


def compute_span(years: int) -> timedelta:
    """Return this many years as days, with the most leap days that they can have."""
    return timedelta(days=365 * years + (years + 3) // 4)


@dataclass
class _RetentionRun:
    """One run of retention, which fills `report`."""

    stores: Stores
    report: RetentionReport
    progress: Progress | None
    _total: int = field(default=0, init=False)

    async def count(self) -> None:
        """Count expired requests, without and with a legal hold; in a dry run also audit rows."""
        found = await self.stores.run(outlived(self.report.until))
        if found is None:
            return
        self._total, self.report.held = found.requests, found.held
        if self.report.dry_run:
            self.report.requests, self.report.audit_rows = found.requests, found.audit_rows

    async def remove(self) -> None:
        """Remove expired requests with their files, audit rows with their files, and subscriptions, in
        batches.
        """
        while await self.stores.run(remove_plain_keys(self.stores.now() - PLAIN_KEY_AGE, BATCH_SIZE)):
            pass
        await self._remove_files()
        while removed := await self._remove_requests():
            self.report.requests += len(removed)
            self._report_progress()
            await self._remove_files()
        while rows := await self._remove_audit():
            self.report.audit_rows += len(rows)
            for row in rows:
                self.report.files += await self._remove_audit_file(row)
        self.report.subscriptions = len(await self.stores.run(remove_subscriptions(self.report.until)))

    async def _remove_requests(self) -> tuple[ExpiredRequest, ...]:
        """Remove a batch of requests in one transaction with its audit and the notes of their files. Return
        them; empty if none is left.
        """
        async with self.stores.sql_transaction() as sql:
            locked = await sql.run(lock_outlived(self.report.until, BATCH_SIZE))
            if not locked:
                return ()
            ids = [each.pagw_id for each in locked]
            await sql.run(remove_counters(ids))
            removed = await sql.run(remove_requests(ids))
            at = self.stores.now()
            removed_ids = [each.pagw_id for each in removed]
            await sql.run(note_forgotten(removed_ids, [each.created_at for each in removed], at))
            for write in build_audit_writes(
                self.stores, self._build_event([each.pagw_id for each in removed])
            ):
                await sql.run(write)
        return removed

    async def _remove_files(self) -> None:
        """Remove the files of all removed requests, also of interrupted runs. A held file stays, and so does
        its note.
        """
        after = ""
        while found := await self.stores.run(forgotten(after)):
            for each in found:
                keys = [
                    key async for key in legal_holds.iterate_keys(self.stores, each.created_at, each.pagw_id)
                ]
                removed = await remove_files(self.stores, keys)
                self.report.files += removed
                if removed == len(keys):
                    await self.stores.run(forget(each.pagw_id))
            after = found[-1].pagw_id

    async def _remove_audit(self) -> tuple[ExpiredAuditEvent, ...]:
        """Remove a batch of expired audit rows and return them; empty if none is left."""
        async with self.stores.sql_transaction() as sql:
            await sql.run(release_audit(self.report.until))
            return await sql.run(remove_audit(self.report.until, BATCH_SIZE))

    async def _remove_audit_file(self, row: ExpiredAuditEvent) -> int:
        """Remove the file of an audit event. Return 1, or 0 if a legal hold keeps it."""
        remove = remove_audit_file(row.timestamp, row.service_name, row.pagw_id or NO_REQUEST, row.event_uuid)
        try:
            await self.stores.run(remove)
        except ObjectHeld:
            return 0
        return 1

    def _build_event(self, pagw_ids: list[str]) -> AuditEvent:
        """Build the audit event of a batch of removed requests."""
        details: dict[str, Any] = {"years": self.report.years, "requests": pagw_ids}
        return AuditEvent(
            type="RETENTION",
            subtype="removed",
            actor=Actor("system", SERVICE),
            service=SERVICE,
            resource_type="requests",
            details=details,
        )

    def _report_progress(self) -> None:
        """Report the number of removed requests, if the caller wants to know."""
        if self.progress is not None:
            self.progress("requests removed", self.report.requests, max(self._total, self.report.requests))
