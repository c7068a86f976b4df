"""The sweeper: removes files that no row points at.

They are left by a call that died between its files and its rows, and was not repeated. A key lives 48 hours, and whoever
repeats it goes on with the same request; so files are removed only when they are older than that, with a day to spare.

A call that is repeated again and again may be at it even then, and find the old files a moment before they go. So the
sweeper takes the request's place in the inbox first, as the call itself would: of the two one comes through. Whoever finds
the place taken and no request comes again, and puts its files anew.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from holdfast import DeleteObject, ListObjects, Rate, SqlChange, SqlRows, Stores, pattern
from holdfast.errors import ConditionFailed, ObjectHeld
from pagw import intake
from pagw.auditing import Actor, AuditEvent, record
from pagw.model import HOUR_S, IDEMPOTENCY_HOURS, SubscriptionId, original_bundle, pagw, subscribed
from pagw.patterns import INBOX, OUTBOX, tracked_among

SERVICE: Final = "sweeper"
AGE_S: Final = (IDEMPOTENCY_HOURS + 24) * HOUR_S
EVERY_S: Final = HOUR_S
MONTHS: Final = 2
# Longer than a message can be repeated: two weeks in its queue, and two more among the dead letters.
INBOX_DAYS: Final = 30
OUTBOX_DAYS: Final = 7
SWEEP: Final = Rate(per="sweep")
_NOW: Final = datetime(2026, 11, 2, 9, tzinfo=UTC)
_ID: Final = "PAGW-01JBEXAMPLE000000000000000"


@pattern("O30", "The files of a month, in the order of their keys", rate=SWEEP, example=(_NOW,))
def files_of_month(month: datetime, cursor: str | None = None) -> ListObjects:
    return original_bundle.listing(created_at=month, cursor=cursor)


@pattern("O31", "Remove a file that nobody points at", rate=SWEEP, example=(f"202611/{_ID}/x.json",))
def remove_file(key: str) -> DeleteObject:
    return DeleteObject(original_bundle, key)


@pattern("O32", "The files of subscriptions, in the order of their keys", rate=SWEEP, example=())
def files_of_subscriptions(cursor: str | None = None) -> ListObjects:
    return subscribed.listing(cursor=cursor)


@pattern("R1", "Which of these subscriptions are known", rate=SWEEP, example=(["sub-1"],))
def subscriptions_among(ids: Sequence[str]) -> SqlRows[SubscriptionId]:
    return pagw.rows(
        SubscriptionId,
        "SELECT {columns} FROM pagw.subscriptions WHERE subscription_id = ANY(%(ids)s::text[])",
        ids=tuple(ids),
    )


@pattern("R2", "Give a place in the inbox free again", rate=SWEEP, example=(intake.SERVICE, _ID))
def free_place(consumer: str, message_id: str) -> SqlChange:
    return pagw.change(
        "DELETE FROM pagw.inbox WHERE consumer = %(consumer)s AND message_id = %(message_id)s",
        consumer=consumer,
        message_id=message_id,
    ).repeatable()


READS: Final = (files_of_month, files_of_subscriptions, subscriptions_among, tracked_among)
WRITES: Final = (remove_file, free_place)


@dataclass(frozen=True)
class Swept:
    """How many files of how many requests and subscriptions were removed."""

    files: int
    requests: int
    subscriptions: int


async def sweep(stores: Stores, months: int = MONTHS) -> Swept:
    """Over the last months, this one included, and over all subscriptions."""
    now = datetime.fromtimestamp(stores.clock.now(), UTC)
    before = stores.clock.now() - AGE_S
    files = requests = 0
    for month in months_until(now, months):
        for removed in [each async for each in sweep_month(stores, month, before)]:
            files += removed
            requests += removed > 0
    subscriptions = await _sweep_subscriptions(stores, before)
    return Swept(files + subscriptions, requests, subscriptions)


async def sweep_month(stores: Stores, month: datetime, before: float) -> AsyncIterator[int]:
    """For each request of a month without a row, how many files were removed that are older than `before`."""
    async for folders in _old_folders(stores, month, before):
        tracked = {each.pagw_id for each in await stores.run(tracked_among(tuple(folders)))}
        for pagw_id in sorted(folders.keys() - tracked):
            yield await _swept(stores, pagw_id, folders[pagw_id])


async def _old_folders(stores: Stores, month: datetime, before: float) -> AsyncIterator[dict[str, list[str]]]:
    """The keys of each request whose newest file is older than `before`, page by page. A request whose files lie on two
    pages is found on both: its row, if there is one, keeps all of them."""
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


async def _swept(stores: Stores, pagw_id: str, keys: list[str]) -> int:
    """With its place in the inbox taken, unless a call takes it at this very moment: then there is a row now."""
    at = datetime.fromtimestamp(stores.clock.now(), UTC)
    try:
        await stores.run(INBOX.taken(intake.SERVICE, pagw_id, at))
    except ConditionFailed:
        # Or a sweeper died after it had taken the place, and there is none.
        if await stores.run(tracked_among((pagw_id,))):
            return 0
    removed = await remove_files(stores, keys)
    await stores.run(free_place(intake.SERVICE, pagw_id))
    if removed:
        await record(stores, _event("objects", pagw_id, removed))
    return removed


async def remove_files(stores: Stores, keys: Iterable[str]) -> int:
    """What is under a legal hold stays."""
    removed = 0
    for key in keys:
        try:
            await stores.run(remove_file(key))
            removed += 1
        except ObjectHeld:
            continue
    return removed


async def _sweep_subscriptions(stores: Stores, before: float) -> int:
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
            removed += await remove_files(stores, [keys[orphan]])
            await record(stores, _event("subscription", orphan, 1))
        cursor = page.cursor
        if cursor is None:
            return removed


async def sweep_messages(stores: Stores) -> tuple[int, int]:
    """Forgets what was sent and taken so long ago that nothing can repeat it: of the outbox and of the inbox."""
    sent = await OUTBOX.sweep(stores, timedelta(days=OUTBOX_DAYS))
    taken = await INBOX.sweep(stores, timedelta(days=INBOX_DAYS))
    return sent, taken


def _event(kind: str, id: str, files: int) -> AuditEvent:
    return AuditEvent(
        type="SWEPT",
        actor=Actor("system", SERVICE),
        service=SERVICE,
        pagw_id=id if kind == "objects" else None,
        resource_type=kind,
        resource_id=id,
        details={"files": files},
    )


def months_until(now: datetime, count: int) -> list[datetime]:
    """The last so many months, that of `now` first."""
    months = [now.replace(day=1)]
    while len(months) < count:
        months.append((months[-1] - timedelta(days=1)).replace(day=1))
    return months
