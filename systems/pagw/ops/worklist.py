"""The operators' worklist: requests and deliveries that need a person, in views of bounded cost.

Each view has an index of its own rows (migration 0002) and is read in the order of that index. A filter is
applied to at most `MAX_EXAMINED` rows per page; the cursor continues after the last one examined, as DynamoDB
does. No view shows PHI: rows have none.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from holdfast import Pattern, Rate, Stores, pattern
from holdfast.core.errors import InvalidRequest
from holdfast.model.sql import SqlOne, SqlRow, SqlRows
from pagw.domain.statuses import Stage, Status
from pagw.model.entities import pagw
from pagw.settings import PagwSettings

PER_PAGE: Final = Rate(per="page of an operator")
PAGE_SIZE: Final = 25
MAX_EXAMINED: Final = 500
# A view counts no more rows than these; the page then shows "100+".
MAX_COUNTED: Final = 100
DUE_SOON: Final = timedelta(hours=24)

_NOW: Final = datetime(2026, 11, 2, 9, tzinfo=UTC)
# Before and after every row of a view, in its order.
_FIRST: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LAST: Final = datetime(3000, 1, 1, tzinfo=UTC)
_LAST_ID: Final = "~"


class View(StrEnum):
    """A view of the worklist. `soon` are the undecided requests that are due within `DUE_SOON`."""

    overdue = "overdue"
    soon = "soon"
    pended = "pended"
    contradicted = "contradicted"
    stuck = "stuck"
    failed = "failed"
    undelivered = "undelivered"
    held = "held"


class WorkItem(SqlRow):
    """A request of the worklist, without its metadata."""

    pagw_id: str
    tenant: str
    status: Status
    stage: Stage | None
    payer_id: str | None
    provider_npi: str | None
    kind: str
    urgency: str
    decision: str | None
    error_code: str | None
    retry_count: int
    created_at: datetime
    updated_at: datetime
    due_at: datetime
    decided_at: datetime | None


class UndeliveredItem(SqlRow):
    """A notification that its client has not accepted: given up, or tried and waiting for another attempt."""

    delivery_id: str
    tenant: str
    pagw_id: str
    subscription_id: str | None
    target: str
    status: str
    attempts: int
    last_error: str | None
    created_at: datetime
    updated_at: datetime
    payer_id: str | None
    urgency: str


class HeldItem(SqlRow):
    """A request under a legal hold."""

    pagw_id: str
    reason: str
    placed_by: str
    placed_at: datetime
    tenant: str
    status: Status
    payer_id: str | None
    urgency: str


class WorkCounts(SqlRow):
    """The number of rows of each view, at most one more than `MAX_COUNTED`."""

    overdue: int
    soon: int
    pended: int
    contradicted: int
    stuck: int
    failed: int
    undelivered: int
    held: int

    @property
    def waiting(self) -> int:
        """The number of cases in which a person must act."""
        return self.overdue + self.contradicted + self.stuck + self.failed + self.undelivered


# --- patterns -----------------------------------------------------------------------------------------------


@pattern("M50", "Number of requests and deliveries in each view", rate=PER_PAGE, example=(_NOW, _NOW, _NOW))
def work_counts(now: datetime, soon: datetime, stuck_before: datetime) -> SqlOne[WorkCounts]:
    """Count each view by its index, up to a limit."""
    return pagw.one(
        WorkCounts,
        """SELECT
             (SELECT COUNT(*) FROM (SELECT 1 FROM pagw.request_tracker
                WHERE decided_at IS NULL AND due_at < %(now)s
                  AND status NOT IN ('COMPLETED', 'FAILED', 'CANCELLED') LIMIT %(limit)s) AS a) AS overdue,
             (SELECT COUNT(*) FROM (SELECT 1 FROM pagw.request_tracker
                WHERE decided_at IS NULL AND due_at >= %(now)s AND due_at < %(soon)s
                  AND status NOT IN ('COMPLETED', 'FAILED', 'CANCELLED') LIMIT %(limit)s) AS b) AS soon,
             (SELECT COUNT(*) FROM (SELECT 1 FROM pagw.request_tracker
                WHERE status = 'PENDED' LIMIT %(limit)s) AS c) AS pended,
             (SELECT COUNT(*) FROM (SELECT 1 FROM pagw.request_tracker
                WHERE error_code IN ('PAYER_CONTRADICTS_ITSELF', 'PAYER_ANSWER_UNREADABLE')
                  OR metadata ? 'contradicted' LIMIT %(limit)s) AS d) AS contradicted,
             (SELECT COUNT(*) FROM (SELECT 1 FROM pagw.request_tracker
                WHERE status NOT IN ('COMPLETED', 'FAILED', 'CANCELLED')
                  AND NOT (status = 'PENDED' AND stage = 'payer') AND updated_at < %(stuck_before)s
                LIMIT %(limit)s) AS e) AS stuck,
             (SELECT COUNT(*) FROM (SELECT 1 FROM pagw.request_tracker
                WHERE status = 'FAILED' LIMIT %(limit)s) AS f) AS failed,
             (SELECT COUNT(*) FROM (SELECT 1 FROM pagw.deliveries
                WHERE status NOT IN ('waiting', 'delivered') OR (status = 'waiting' AND attempts > 0)
                LIMIT %(limit)s) AS g) AS undelivered,
             (SELECT COUNT(*) FROM (SELECT 1 FROM pagw.legal_holds LIMIT %(limit)s) AS h) AS held""",
        now=now,
        soon=soon,
        stuck_before=stuck_before,
        limit=MAX_COUNTED + 1,
    )


@pattern(
    "M51",
    "Undecided requests that are due in a period, the earliest first",
    rate=PER_PAGE,
    example=(_FIRST, "", _NOW),
)
def due_window(after: datetime, after_id: str, before: datetime, limit: int = PAGE_SIZE) -> SqlRows[WorkItem]:
    return pagw.rows(
        WorkItem,
        """SELECT {columns} FROM pagw.request_tracker
           WHERE decided_at IS NULL AND status NOT IN ('COMPLETED', 'FAILED', 'CANCELLED')
             AND (due_at, pagw_id) > (%(after)s, %(after_id)s::text) AND due_at < %(before)s
           ORDER BY due_at, pagw_id LIMIT %(limit)s""",
        after=after,
        after_id=after_id,
        before=before,
        limit=limit,
    )


@pattern("M52", "Pended requests, the earliest due first", rate=PER_PAGE, example=(_FIRST, ""))
def pended_window(after: datetime, after_id: str, limit: int = PAGE_SIZE) -> SqlRows[WorkItem]:
    return pagw.rows(
        WorkItem,
        """SELECT {columns} FROM pagw.request_tracker
           WHERE status = 'PENDED' AND (due_at, pagw_id) > (%(after)s, %(after_id)s::text)
           ORDER BY due_at, pagw_id LIMIT %(limit)s""",
        after=after,
        after_id=after_id,
        limit=limit,
    )


@pattern(
    "M53",
    "Requests whose payer contradicted itself or sent an invalid answer, newest first",
    rate=PER_PAGE,
    example=(_LAST, _LAST_ID),
)
def contradicted_window(before: datetime, before_id: str, limit: int = PAGE_SIZE) -> SqlRows[WorkItem]:
    """Select the requests whose payer's answers contradict each other or themselves, or are unreadable."""
    return pagw.rows(
        WorkItem,
        """SELECT {columns} FROM pagw.request_tracker
           WHERE (error_code IN ('PAYER_CONTRADICTS_ITSELF', 'PAYER_ANSWER_UNREADABLE')
                  OR metadata ? 'contradicted')
             AND (updated_at, pagw_id) < (%(before)s, %(before_id)s::text)
           ORDER BY updated_at DESC, pagw_id DESC LIMIT %(limit)s""",
        before=before,
        before_id=before_id,
        limit=limit,
    )


@pattern(
    "M54",
    "Requests without progress since a time, the oldest first",
    rate=PER_PAGE,
    example=(_FIRST, "", _NOW),
)
def stuck_window(
    after: datetime, after_id: str, before: datetime, limit: int = PAGE_SIZE
) -> SqlRows[WorkItem]:
    """Select the active requests without progress since `before`, except those that wait for their payer."""
    return pagw.rows(
        WorkItem,
        """SELECT {columns} FROM pagw.request_tracker
           WHERE status NOT IN ('COMPLETED', 'FAILED', 'CANCELLED')
             AND NOT (status = 'PENDED' AND stage = 'payer')
             AND (updated_at, pagw_id) > (%(after)s, %(after_id)s::text) AND updated_at < %(before)s
           ORDER BY updated_at, pagw_id LIMIT %(limit)s""",
        after=after,
        after_id=after_id,
        before=before,
        limit=limit,
    )


@pattern("M55", "Failed requests, newest first", rate=PER_PAGE, example=(_LAST, _LAST_ID))
def failed_window(before: datetime, before_id: str, limit: int = PAGE_SIZE) -> SqlRows[WorkItem]:
    return pagw.rows(
        WorkItem,
        """SELECT {columns} FROM pagw.request_tracker
           WHERE status = 'FAILED' AND (updated_at, pagw_id) < (%(before)s, %(before_id)s::text)
           ORDER BY updated_at DESC, pagw_id DESC LIMIT %(limit)s""",
        before=before,
        before_id=before_id,
        limit=limit,
    )


@pattern(
    "M56",
    "Notifications that their clients have not accepted, newest first",
    rate=PER_PAGE,
    example=(_LAST, _LAST_ID),
)
def undelivered_window(before: datetime, before_id: str, limit: int = PAGE_SIZE) -> SqlRows[UndeliveredItem]:
    """Select the deliveries that were given up, are held back, or were tried without success."""
    return pagw.rows(
        UndeliveredItem,
        """SELECT delivery_id, deliveries.tenant, pagw_id, subscription_id, target, deliveries.status,
                  attempts, last_error, deliveries.created_at, deliveries.updated_at, payer_id, urgency
           FROM (SELECT * FROM pagw.deliveries
                 WHERE (status NOT IN ('waiting', 'delivered') OR (status = 'waiting' AND attempts > 0))
                   AND (updated_at, delivery_id) < (%(before)s, %(before_id)s::text)
                 ORDER BY updated_at DESC, delivery_id DESC LIMIT %(limit)s) AS deliveries
           JOIN pagw.request_tracker USING (pagw_id)
           ORDER BY deliveries.updated_at DESC, delivery_id DESC""",
        before=before,
        before_id=before_id,
        limit=limit,
    )


@pattern("M57", "Requests under a legal hold, by id", rate=PER_PAGE, example=("",))
def held_window(after_id: str, limit: int = PAGE_SIZE) -> SqlRows[HeldItem]:
    return pagw.rows(
        HeldItem,
        """SELECT pagw_id, reason, placed_by, placed_at, tenant, status, payer_id, urgency
           FROM (SELECT * FROM pagw.legal_holds WHERE pagw_id > %(after_id)s::text
                 ORDER BY pagw_id LIMIT %(limit)s) AS holds
           JOIN pagw.request_tracker USING (pagw_id) ORDER BY pagw_id""",
        after_id=after_id,
        limit=limit,
    )


class NewestEvent(SqlRow):
    """The id of the newest audit event; None without one."""

    id: int | None


@pattern("M58", "The id of the newest audit event", rate=PER_PAGE)
def newest_event() -> SqlOne[NewestEvent]:
    """Select the greatest id by the primary key: it changes with every change of a request."""
    return pagw.one(NewestEvent, "SELECT MAX(id) AS id FROM pagw.audit_log")


PATTERNS: Final[tuple[Pattern[..., Any], ...]] = (
    newest_event,
    work_counts,
    due_window,
    pended_window,
    contradicted_window,
    stuck_window,
    failed_window,
    undelivered_window,
    held_window,
)


# --- pages --------------------------------------------------------------------------------------------------

Row = WorkItem | UndeliveredItem | HeldItem


@dataclass(frozen=True)
class WorkFilter:
    """What a page shows: requests to one payer, under one clock (`expedited` or `standard`); None for all."""

    payer_id: str | None = None
    urgency: str | None = None

    @property
    def is_empty(self) -> bool:
        return self.payer_id is None and self.urgency is None

    def fits(self, row: Row) -> bool:
        """Return whether the row passes the filter."""
        return self.payer_id in (None, row.payer_id) and self.urgency in (None, row.urgency)


NO_FILTER: Final = WorkFilter()


@dataclass(frozen=True)
class WorkPage:
    """One page of a view. `cursor` continues it; None at its end. `examined` rows were read for it."""

    rows: tuple[Row, ...]
    cursor: str | None
    examined: int


@dataclass(frozen=True)
class _Place:
    """A place in the order of a view: the values of its index."""

    at: datetime
    id: str

    def __str__(self) -> str:
        return f"{self.at.isoformat()}~{self.id}"


async def count_work(stores: Stores) -> WorkCounts:
    """Return the number of rows of each view."""
    now = stores.now()
    found = await stores.run(work_counts(now, now + DUE_SOON, _get_stuck_limit(now)))
    assert found is not None
    return found


async def read_work(
    stores: Stores, view: View, wanted: WorkFilter = NO_FILTER, cursor: str | None = None
) -> WorkPage:
    """Return a page of a view. Raise `InvalidRequest` for a cursor that is not one."""
    limit = PAGE_SIZE + 1 if wanted.is_empty else MAX_EXAMINED
    place = None if not cursor else _parse_cursor(cursor)
    found: tuple[Row, ...] = tuple(await stores.run(_build_window(view, place, stores.now(), limit)))
    fitting = [each for each in found if wanted.fits(each)]
    shown = tuple(fitting[:PAGE_SIZE])
    if len(fitting) > PAGE_SIZE:
        return WorkPage(shown, str(_get_place(view, shown[-1])), len(found))
    # The window was full: rows after it may pass the filter.
    has_more = not wanted.is_empty and len(found) == limit
    return WorkPage(shown, str(_get_place(view, found[-1])) if has_more else None, len(found))


def _get_stuck_limit(now: datetime) -> datetime:
    """Return the time since which a request without progress is stuck."""
    return now - timedelta(minutes=PagwSettings.load().stuck_minutes)


def _build_window(view: View, place: _Place | None, now: datetime, limit: int) -> Any:
    """Return the read of the rows of a view after a place."""
    first, last = place or _Place(_FIRST, ""), place or _Place(_LAST, _LAST_ID)
    windows: dict[View, Callable[[], Any]] = {
        View.overdue: lambda: due_window(first.at, first.id, now, limit),
        # Nothing else is due at exactly this moment: an empty id is before every other.
        View.soon: lambda: due_window(*_get_pair(place or _Place(now, "")), now + DUE_SOON, limit),
        View.pended: lambda: pended_window(first.at, first.id, limit),
        View.contradicted: lambda: contradicted_window(last.at, last.id, limit),
        View.stuck: lambda: stuck_window(first.at, first.id, _get_stuck_limit(now), limit),
        View.failed: lambda: failed_window(last.at, last.id, limit),
        View.undelivered: lambda: undelivered_window(last.at, last.id, limit),
        View.held: lambda: held_window(first.id, limit),
    }
    return windows[view]()


def _get_pair(place: _Place) -> tuple[datetime, str]:
    return place.at, place.id


def _get_place(view: View, row: Row) -> _Place:
    """Return the place of a row in the order of its view."""
    if isinstance(row, HeldItem):
        return _Place(row.placed_at, row.pagw_id)
    if isinstance(row, UndeliveredItem):
        return _Place(row.updated_at, row.delivery_id)
    is_by_due_time = view in (View.overdue, View.soon, View.pended)
    return _Place(row.due_at if is_by_due_time else row.updated_at, row.pagw_id)


def _parse_cursor(cursor: str) -> _Place:
    """Return the place that a cursor names. Raise `InvalidRequest` if it is not one."""
    at, separator, id = cursor.partition("~")
    try:
        moment = datetime.fromisoformat(at)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None or not separator:
        raise InvalidRequest("Invalid cursor: it is not from this worklist. Start from its first page.")
    return _Place(moment, id)
