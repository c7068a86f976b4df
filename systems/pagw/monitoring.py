"""What operators ask: how many requests stand where, how long they take, which are stuck, which decisions are late.

The document's three queries are here as it writes them, each beside the form that says what its title promises: its "active
requests" counts those that are done, its backlog those that are dead, and its average those that waited for a payer.
What CMS wants reported of a year is made of `decisions_between` (`yearly_report.py`).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from pydantic import BaseModel

from holdfast import Rate, SqlOne, SqlRow, SqlRows, Stores, pattern
from pagw.model import Seconds, StatusCount, Total, Tracked, pagw
from pagw.patterns import OUTBOX
from pagw.statuses import TERMINAL, Status

WATCH: Final = Rate(per="look of an operator")
_NOW: Final = datetime(2026, 11, 2, 9, tzinfo=UTC)
_ENDED: Final = tuple(each.value for each in TERMINAL)


class Spread(SqlRow):
    """How long requests took, in seconds: half of them no longer than `median`, and so on."""

    count: int
    average: float | None
    median: float | None
    p95: float | None
    longest: float | None


class Decisions(SqlRow):
    """The decisions of one kind and urgency in a time; of all kinds together where `decision` is None."""

    urgency: str
    decision: str | None
    count: int
    in_time: int
    average_hours: float | None
    median_hours: float | None


class Counted(SqlRow):
    stuck: int
    overdue: int


@pattern("M1", "Requests by status, as the document asks", rate=WATCH)
def requests_by_status() -> SqlRows[StatusCount]:
    return pagw.rows(
        StatusCount,
        "SELECT status, COUNT(*) AS count FROM pagw.request_tracker GROUP BY status ORDER BY COUNT(*) DESC, status",
    ).on_reader()


@pattern("M2", "Active requests by status: those that have not ended", rate=WATCH)
def active_by_status() -> SqlRows[StatusCount]:
    return pagw.rows(
        StatusCount,
        """SELECT status, COUNT(*) AS count FROM pagw.request_tracker
           WHERE status <> ALL(%(ended)s::text[]) GROUP BY status ORDER BY COUNT(*) DESC, status""",
        ended=_ENDED,
    ).on_reader()


@pattern("M3", "The outbox's backlog, as the document asks", rate=WATCH)
def outbox_pending() -> SqlOne[Total]:
    return pagw.one(Total, "SELECT COUNT(*) AS count FROM pagw.outbox WHERE processed = false")


@pattern("M4", "The average seconds of a request, as the document asks", rate=WATCH)
def average_seconds() -> SqlOne[Seconds]:
    return pagw.one(
        Seconds,
        """SELECT AVG(EXTRACT(EPOCH FROM (completed_at - created_at)))::float8 AS seconds
           FROM pagw.request_tracker WHERE completed_at IS NOT NULL""",
    ).on_reader()


@pattern(
    "M5", "How long the requests of a time took, waiting for payers left out", rate=WATCH, example=(_NOW,)
)
def seconds_since(since: datetime) -> SqlOne[Spread]:
    """An average hides the slow ones, and one pended request outweighs a thousand others."""
    return pagw.one(
        Spread,
        """SELECT COUNT(*) AS count, AVG(took)::float8 AS average,
                  percentile_cont(0.5) WITHIN GROUP (ORDER BY took)::float8 AS median,
                  percentile_cont(0.95) WITHIN GROUP (ORDER BY took)::float8 AS p95, MAX(took)::float8 AS longest
           FROM (SELECT EXTRACT(EPOCH FROM (completed_at - created_at)) AS took FROM pagw.request_tracker
                 WHERE created_at >= %(since)s AND completed_at IS NOT NULL AND NOT metadata ? 'callback') AS ended""",
        since=since,
    ).on_reader()


@pattern("M6", "Requests that should move and do not", rate=WATCH, example=(_NOW,))
def stuck_since(before: datetime, limit: int = 100) -> SqlRows[Tracked]:
    """A pended request waits for its payer, and is not stuck; the clock of its decision watches it."""
    return pagw.rows(
        Tracked,
        """SELECT {columns} FROM pagw.request_tracker
           WHERE status NOT IN ('COMPLETED', 'FAILED', 'CANCELLED') AND updated_at < %(before)s
             AND NOT (status = 'PENDED' AND stage = 'payer')
           ORDER BY updated_at LIMIT %(limit)s""",
        before=before,
        limit=limit,
    )


@pattern("M7", "Requests without a decision that are due by a time", rate=WATCH, example=(_NOW,))
def due_before(before: datetime, limit: int = 100) -> SqlRows[Tracked]:
    return pagw.rows(
        Tracked,
        """SELECT {columns} FROM pagw.request_tracker
           WHERE decided_at IS NULL AND due_at < %(before)s AND status NOT IN ('COMPLETED', 'FAILED', 'CANCELLED')
           ORDER BY due_at LIMIT %(limit)s""",
        before=before,
        limit=limit,
    )


@pattern("M8", "Decisions of a time by urgency and outcome", rate=WATCH, example=(_NOW, _NOW))
def decisions_between(since: datetime, until: datetime, payer_id: str | None = None) -> SqlRows[Decisions]:
    """A cancellation is no decision on a service, and is not counted."""
    return pagw.rows(
        Decisions,
        """SELECT urgency, decision, COUNT(*) AS count,
                  COUNT(*) FILTER (WHERE decided_at <= due_at) AS in_time,
                  AVG(EXTRACT(EPOCH FROM (decided_at - created_at)) / 3600)::float8 AS average_hours,
                  percentile_cont(0.5) WITHIN GROUP (
                      ORDER BY EXTRACT(EPOCH FROM (decided_at - created_at)) / 3600)::float8 AS median_hours
           FROM pagw.request_tracker
           WHERE decided_at >= %(since)s AND decided_at < %(until)s AND kind <> 'cancel'
             AND decision IN ('approved', 'denied', 'modified')
             AND (%(payer_id)s::text IS NULL OR payer_id = %(payer_id)s)
           GROUP BY GROUPING SETS ((urgency, decision), (urgency)) ORDER BY urgency, decision NULLS FIRST""",
        since=since,
        until=until,
        payer_id=payer_id,
    ).on_reader()


@pattern(
    "M9", "A request of any tenant, for operators", rate=WATCH, example=("PAGW-01JBEXAMPLE000000000000000",)
)
def any_request(pagw_id: str) -> SqlOne[Tracked]:
    return pagw.one(
        Tracked, "SELECT {columns} FROM pagw.request_tracker WHERE pagw_id = %(pagw_id)s", pagw_id=pagw_id
    )


@pattern("M10", "How many requests are stuck and overdue", rate=WATCH, example=(_NOW, _NOW))
def counted(stuck_before: datetime, due_before: datetime) -> SqlOne[Counted]:
    return pagw.one(
        Counted,
        """SELECT COUNT(*) FILTER (WHERE updated_at < %(stuck_before)s AND NOT (status = 'PENDED' AND stage = 'payer')) AS stuck,
                  COUNT(*) FILTER (WHERE decided_at IS NULL AND due_at < %(due_before)s) AS overdue
           FROM pagw.request_tracker WHERE status NOT IN ('COMPLETED', 'FAILED', 'CANCELLED')""",
        stuck_before=stuck_before,
        due_before=due_before,
    )


@pattern("M11", "The newest requests of all tenants, for operators", rate=WATCH, example=())
def newest(tenant: str | None = None, status: Status | None = None, limit: int = 50) -> SqlRows[Tracked]:
    return pagw.rows(
        Tracked,
        """SELECT {columns} FROM pagw.request_tracker
           WHERE (%(tenant)s::text IS NULL OR tenant = %(tenant)s) AND (%(status)s::text IS NULL OR status = %(status)s)
           ORDER BY created_at DESC, pagw_id DESC LIMIT %(limit)s""",
        tenant=tenant,
        status=status,
        limit=limit,
    ).on_reader()


class Standing(BaseModel):
    """How the gateway stands: for `holdfast pagw status`, and for whoever watches it."""

    active: dict[str, int]
    all: dict[str, int]
    outbox_waiting: int
    outbox_dead: int
    outbox_oldest_s: float | None
    average_s: float | None
    median_s: float | None
    p95_s: float | None
    stuck: int
    overdue: int


async def standing(stores: Stores, stuck_minutes: int) -> Standing:
    now = datetime.fromtimestamp(stores.clock.now(), UTC)
    counts = await stores.run(counted(now - timedelta(minutes=stuck_minutes), now))
    active = await stores.run(active_by_status())
    everything = await stores.run(requests_by_status())
    backlog = await OUTBOX.backlog(stores)
    spread = await stores.run(seconds_since(now - timedelta(days=1)))
    average = await stores.run(average_seconds())
    return Standing(
        active={each.status: each.count for each in active},
        all={each.status: each.count for each in everything},
        outbox_waiting=sum(each.pending for each in backlog),
        outbox_dead=sum(each.dead for each in backlog),
        outbox_oldest_s=max((each.oldest_age_s(stores.clock.now()) for each in backlog), default=None),
        average_s=None if average is None else average.seconds,
        median_s=None if spread is None else spread.median,
        p95_s=None if spread is None else spread.p95,
        stuck=0 if counts is None else counts.stuck,
        overdue=0 if counts is None else counts.overdue,
    )


def lines_of(standing: Standing, stuck_minutes: int) -> list[str]:
    """How it stands, for a person: rounded, and what there is none of said in words."""
    moving = sum(standing.active.values())
    by_status = [
        f"  {status:<22}{count:>7,}{'' if status in standing.active else '   ended'}"
        for status, count in standing.all.items()
    ]
    oldest = "" if not standing.outbox_waiting else f", the oldest for {_seconds(standing.outbox_oldest_s)}"
    return [
        f"{'requests':<24}{sum(standing.all.values()):>7,}   {moving:,} of them have not ended",
        *by_status,
        f"{f'stuck for {stuck_minutes} min':<24}{standing.stuck:>7,}   `holdfast pagw stuck`",
        f"{'overdue':<24}{standing.overdue:>7,}   `holdfast pagw overdue`",
        f"{'outbox, waiting':<24}{standing.outbox_waiting:>7,}{oldest}",
        f"{'outbox, dead':<24}{standing.outbox_dead:>7,}   `holdfast outbox list pagw`",
        f"time of a request       {_seconds(standing.average_s):>7} on average; of the last day, payers' waits left out: median "
        f"{_seconds(standing.median_s)}, 95 % within {_seconds(standing.p95_s)}",
    ]


def _seconds(value: float | None) -> str:
    return "none" if value is None else f"{value:,.1f} s"
