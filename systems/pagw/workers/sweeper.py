"""The sweeper: removes files that no row points at, and old outbox and inbox rows.

A submission that crashed between its files and its rows, and was not repeated, leaves such files. An
idempotency key lives 48 hours, and a repeated submission under it continues the same request. So only files
older than that, plus a day, are removed.

A submission may still be repeated even then, and find the old files just before they are removed. So the
sweeper first inserts the request's inbox row, as the submission itself would: only one of the two succeeds. A
submission that finds the inbox row and no request retries and stores its files again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from holdfast import Pattern, Rate, Stores, pattern
from holdfast.core.errors import ConditionFailed, ObjectHeld
from holdfast.model.objects import DeleteObject, ListObjects
from holdfast.model.sql import SqlChange, SqlRows
from pagw.model.audit import Actor, AuditEvent, record_event
from pagw.model.entities import (
    HOUR_S,
    IDEMPOTENCY_HOURS,
    SubscriptionId,
    original_bundle,
    pagw,
    subscription_request,
)
from pagw.model.patterns import INBOX, OUTBOX, tracked_among
from pagw.model.payer_calls import KEPT_DAYS, remove_calls
from pagw.workers import intake

SERVICE: Final = "sweeper"
MIN_AGE_S: Final = (IDEMPOTENCY_HOURS + 24) * HOUR_S
INTERVAL_S: Final = HOUR_S
MONTHS: Final = 2
# Longer than a message can be redelivered: two weeks in its queue and two in the dead-letter queue.
INBOX_DAYS: Final = 30
OUTBOX_DAYS: Final = 7
PER_SWEEP: Final = Rate(per="sweep")
_NOW: Final = datetime(2026, 11, 2, 9, tzinfo=UTC)
_ID: Final = "PAGW-01JBEXAMPLE000000000000000"


@pattern("O30", "Files of a month, in key order", rate=PER_SWEEP, example=(_NOW,))
def files_of_month(month: datetime, cursor: str | None = None) -> ListObjects:
    return original_bundle.list_objects(created_at=month, cursor=cursor)


@pattern("O31", "Remove an orphaned file", rate=PER_SWEEP, example=(f"202611/{_ID}/x.json",))
def remove_file(key: str) -> DeleteObject:
    return DeleteObject(original_bundle, key)


@pattern("O32", "Files of subscriptions, in key order", rate=PER_SWEEP, example=())
def files_of_subscriptions(cursor: str | None = None) -> ListObjects:
    return subscription_request.list_objects(cursor=cursor)


@pattern("R1", "The subscriptions among these ids that exist", rate=PER_SWEEP, example=(["sub-1"],))
def subscriptions_among(ids: Sequence[str]) -> SqlRows[SubscriptionId]:
    return pagw.rows(
        SubscriptionId,
        "SELECT {columns} FROM pagw.subscriptions WHERE subscription_id = ANY(%(ids)s::text[])",
        ids=tuple(ids),
    )


@pattern("R2", "Remove an inbox row", rate=PER_SWEEP, example=(intake.SERVICE, _ID))
def free_place(consumer: str, message_id: str) -> SqlChange:
    """Delete the inbox row of a consumer and a message."""
    return pagw.change(
        "DELETE FROM pagw.inbox WHERE consumer = %(consumer)s AND message_id = %(message_id)s",
        consumer=consumer,
        message_id=message_id,
    ).idempotent()


PATTERNS: Final[tuple[Pattern[..., Any], ...]] = (
    files_of_month,
    files_of_subscriptions,
    subscriptions_among,
    tracked_among,
    remove_calls,
    remove_file,
    free_place,
)


@dataclass(frozen=True)
class SweepReport:
    """The number of removed files, and of the requests and subscriptions they belonged to."""

    files: int
    requests: int
    subscriptions: int


async def sweep(stores: Stores, months: int = MONTHS) -> SweepReport:
    """Remove orphaned files of the last `months` months, the current included, and of all subscriptions."""
    now = stores.now()
    before = stores.clock.now() - MIN_AGE_S
    files = requests = 0
    for month in list_months(now, months):
        for removed in [each async for each in sweep_month(stores, month, before)]:
            files += removed
            requests += removed > 0
    subscriptions = await _sweep_subscriptions(stores, before)
    return SweepReport(files + subscriptions, requests, subscriptions)


async def sweep_month(stores: Stores, month: datetime, before: float) -> AsyncIterator[int]:
    """Yield, for each request of a month without a row, the number of removed files older than `before`."""
    async for folders in _list_old_folders(stores, month, before):
        tracked = {each.pagw_id for each in await stores.run(tracked_among(tuple(folders)))}
        for pagw_id in sorted(folders.keys() - tracked):
            yield await _sweep_request(stores, pagw_id, folders[pagw_id])


async def _list_old_folders(
    stores: Stores, month: datetime, before: float
) -> AsyncIterator[dict[str, list[str]]]:
    """Yield, page by page, the keys of each request whose newest file is older than `before`.

    A request whose files span two pages appears in both; its row, if there is one, protects all of them.
    """
    cursor: str | None = None
    while True:
        page = await stores.run(files_of_month(month, cursor))
        folders: dict[str, list[str]] = defaultdict(list)
        newest: dict[str, float] = {}
        for each in page.objects:
            pagw_id = each.key.split("/")[1]
            folders[pagw_id].append(each.key)
            newest[pagw_id] = max(newest.get(pagw_id, 0.0), each.put_at)
        yield {pagw_id: keys for pagw_id, keys in folders.items() if newest[pagw_id] < before}
        cursor = page.cursor
        if cursor is None:
            return


async def _sweep_request(stores: Stores, pagw_id: str, keys: list[str]) -> int:
    """Remove a request's files under its inbox row, and return how many. Return 0 if a submission inserted
    that row and the request exists.
    """
    at = stores.now()
    try:
        await stores.run(INBOX.take(intake.SERVICE, pagw_id, at))
    except ConditionFailed:
        # Without a request, the inbox row was left by a sweeper that crashed.
        if await stores.run(tracked_among((pagw_id,))):
            return 0
    removed = await remove_files(stores, keys)
    await stores.run(free_place(intake.SERVICE, pagw_id))
    if removed:
        await record_event(stores, _build_event("objects", pagw_id, removed))
    return removed


async def remove_files(stores: Stores, keys: Iterable[str]) -> int:
    """Remove the files and return how many. Files under a legal hold stay."""
    removed = 0
    for key in keys:
        try:
            await stores.run(remove_file(key))
            removed += 1
        except ObjectHeld:
            continue
    return removed


async def _sweep_subscriptions(stores: Stores, before: float) -> int:
    """Remove the files, older than `before`, of subscriptions without a row. Return how many."""
    removed = 0
    cursor: str | None = None
    while True:
        page = await stores.run(files_of_subscriptions(cursor))
        keys = {
            each.key.rsplit("/", 1)[1].removesuffix(".json"): each.key
            for each in page.objects
            if each.put_at < before
        }
        known = {each.subscription_id for each in await stores.run(subscriptions_among(tuple(keys)))}
        for orphan in sorted(keys.keys() - known):
            # A file under a legal hold stays.
            if await remove_files(stores, [keys[orphan]]):
                removed += 1
                await record_event(stores, _build_event("subscription", orphan, 1))
        cursor = page.cursor
        if cursor is None:
            return removed


async def sweep_messages(stores: Stores) -> tuple[int, int]:
    """Remove outbox and inbox rows that are too old to be repeated, and old calls to payers. Return the
    number of outbox and inbox rows.
    """
    before = stores.now() - timedelta(days=KEPT_DAYS)
    while await stores.run(remove_calls(before)):
        pass
    sent = await OUTBOX.sweep(stores, timedelta(days=OUTBOX_DAYS))
    taken = await INBOX.sweep(stores, timedelta(days=INBOX_DAYS))
    return sent, taken


def _build_event(kind: str, id: str, files: int) -> AuditEvent:
    """Build the audit event of removed files. `kind` is `objects` (of a request) or `subscription`."""
    return AuditEvent(
        type="SWEPT",
        actor=Actor("system", SERVICE),
        service=SERVICE,
        pagw_id=id if kind == "objects" else None,
        resource_type=kind,
        resource_id=id,
        details={"files": files},
    )


def list_months(now: datetime, count: int) -> list[datetime]:
    """Return the last `count` months, that of `now` first."""
    months = [now.replace(day=1)]
    while len(months) < count:
        months.append((months[-1] - timedelta(days=1)).replace(day=1))
    return months
