"""The sweeper: removes the files of requests that no row tracks.

They are left by a call that died between its files and its rows, and was not repeated. A key lives 48 hours, and whoever
repeats it goes on with the same request; so files are removed only when they are older than that, with a day to spare.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Final

from holdfast import DeleteObject, ListObjects, Rate, Stores, pattern
from pagw.auditing import Actor, AuditEvent, record
from pagw.model import HOUR_S, IDEMPOTENCY_HOURS, original_bundle
from pagw.patterns import tracked_among

SERVICE: Final = "sweeper"
AGE_S: Final = (IDEMPOTENCY_HOURS + 24) * HOUR_S
EVERY_S: Final = HOUR_S
SWEEP: Final = Rate(per="sweep")
_NOW: Final = datetime(2026, 11, 2, 9, tzinfo=UTC)


@pattern("O30", "The files of a month, in the order of their keys", rate=SWEEP, example=(_NOW,))
def files_of_month(month: datetime, cursor: str | None = None) -> ListObjects:
    return original_bundle.listing(created_at=month, cursor=cursor)


@pattern(
    "O31",
    "Remove a file that nobody points at",
    rate=SWEEP,
    example=("202611/PAGW-1/request/original_bundle.json",),
)
def remove_file(key: str) -> DeleteObject:
    return DeleteObject(original_bundle, key)


async def sweep(stores: Stores, months: int = 2) -> int:
    """Over the last months, this one included. Gives how many files were removed."""
    now = datetime.fromtimestamp(stores.clock.now(), UTC)
    removed = 0
    for month in _months(now, months):
        async for folders in _old_folders(stores, month, stores.clock.now() - AGE_S):
            tracked = {each.pagw_id for each in await stores.run(tracked_among(tuple(folders)))}
            for pagw_id in folders.keys() - tracked:
                removed += await _remove(stores, pagw_id, folders[pagw_id])
    return removed


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


async def _remove(stores: Stores, pagw_id: str, keys: list[str]) -> int:
    for key in keys:
        await stores.run(remove_file(key))
    await record(
        stores,
        AuditEvent(
            type="SWEPT",
            actor=Actor("system", SERVICE),
            service=SERVICE,
            pagw_id=pagw_id,
            resource_type="objects",
            resource_id=pagw_id,
            details={"files": len(keys)},
        ),
    )
    return len(keys)


def _months(now: datetime, count: int) -> list[datetime]:
    months = [now.replace(day=1)]
    while len(months) < count:
        months.append((months[-1] - timedelta(days=1)).replace(day=1))
    return months
