"""Monitoring queries for operators: requests by status, durations, stuck requests, late decisions.

The document's three queries are here as it writes them, each next to a query that matches its title: its
"active requests" include ended ones, its backlog includes dead messages, and its average includes waits for
payers. The annual report for CMS uses `decisions_between` (`annual_report`).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from pydantic import BaseModel

from holdfast import Rate, Stores, pattern
from holdfast.model.sql import SqlOne, SqlRow, SqlRows
from pagw.domain.statuses import TERMINAL, Status
from pagw.model.entities import RequestRow, Seconds, StatusCount, Total, pagw
from pagw.model.patterns import OUTBOX

PER_OPERATOR_QUERY: Final = Rate(per="look of an operator")
_NOW: Final = datetime(2026, 11, 2, 9, tzinfo=UTC)
_ENDED: Final = tuple(each.value for each in TERMINAL)


class DurationStats(SqlRow):
    """Durations of requests in seconds: count, average, median, 95th percentile, maximum."""

    count: int
    average: float | None
    median: float | None
    p95: float | None
    longest: float | None


class DecisionStats(SqlRow):
    """Decisions of one kind and urgency in a period. `decision` is None in the total over all kinds."""

    urgency: str
    decision: str | None
    count: int
    in_time: int
    average_hours: float | None
    median_hours: float | None


class ProblemCounts(SqlRow):
    """The numbers of stuck and of overdue requests."""

    stuck: int
    overdue: int


@pattern("M1", "Requests by status", rate=PER_OPERATOR_QUERY)
def requests_by_status() -> SqlRows[StatusCount]:
    return pagw.rows(
        StatusCount,
        "SELECT status, COUNT(*) AS count FROM pagw.request_tracker GROUP BY status ORDER BY COUNT(*) DESC, "
        "status",
    ).on_reader()


@pattern("M2", "Active requests by status, without ended ones", rate=PER_OPERATOR_QUERY)
def active_by_status() -> SqlRows[StatusCount]:
    return pagw.rows(
        StatusCount,
        """SELECT status, COUNT(*) AS count FROM pagw.request_tracker
           WHERE status <> ALL(%(ended)s::text[]) GROUP BY status ORDER BY COUNT(*) DESC, status""",
        ended=_ENDED,
    ).on_reader()


@pattern("M3", "Outbox backlog", rate=PER_OPERATOR_QUERY)
def outbox_pending() -> SqlOne[Total]:
    return pagw.one(Total, "SELECT COUNT(*) AS count FROM pagw.outbox WHERE processed = false")


@pattern("M4", "Average duration of a request in seconds", rate=PER_OPERATOR_QUERY)
def average_seconds() -> SqlOne[Seconds]:
    return pagw.one(
        Seconds,
        """SELECT AVG(EXTRACT(EPOCH FROM (completed_at - created_at)))::float8 AS seconds
           FROM pagw.request_tracker WHERE completed_at IS NOT NULL""",
    ).on_reader()


@pattern(
    "M5",
    "Durations of requests since a time, without those that waited for a payer",
    rate=PER_OPERATOR_QUERY,
    example=(_NOW,),
)
def seconds_since(since: datetime) -> SqlOne[DurationStats]:
    """Return the distribution: an average hides slow requests, and one pended request outweighs a thousand
    others.
    """
    return pagw.one(
        DurationStats,
        """SELECT COUNT(*) AS count, AVG(took)::float8 AS average,
                  percentile_cont(0.5) WITHIN GROUP (ORDER BY took)::float8 AS median,
                  percentile_cont(0.95) WITHIN GROUP (ORDER BY took)::float8 AS p95,
                      MAX(took)::float8 AS longest
           FROM (SELECT EXTRACT(EPOCH FROM (completed_at - created_at)) AS took FROM pagw.request_tracker
                 WHERE created_at >= %(since)s AND completed_at IS NOT NULL
                        AND NOT metadata ? 'callback') AS ended""",
        since=since,
    ).on_reader()


@pattern(
    "M6", "Stuck requests: active, without progress since a time", rate=PER_OPERATOR_QUERY, example=(_NOW,)
)
def stuck_since(before: datetime, limit: int = 100) -> SqlRows[RequestRow]:
    """Return the requests without progress since `before`. A request that waits for its payer has a due time
    instead.
    """
    return pagw.rows(
        RequestRow,
        """SELECT {columns} FROM pagw.request_tracker
           WHERE status NOT IN ('COMPLETED', 'FAILED', 'CANCELLED') AND updated_at < %(before)s
             AND NOT (status = 'PENDED' AND stage = 'payer')
           ORDER BY updated_at LIMIT %(limit)s""",
        before=before,
        limit=limit,
    )


@pattern("M7", "Undecided requests that are due before a time", rate=PER_OPERATOR_QUERY, example=(_NOW,))
def due_before(before: datetime, limit: int = 100) -> SqlRows[RequestRow]:
    """Select the undecided requests that are due before a time, the earliest first."""
    return pagw.rows(
        RequestRow,
        """SELECT {columns} FROM pagw.request_tracker
           WHERE decided_at IS NULL AND due_at < %(before)s
               AND status NOT IN ('COMPLETED', 'FAILED', 'CANCELLED')
           ORDER BY due_at LIMIT %(limit)s""",
        before=before,
        limit=limit,
    )


@pattern("M8", "Decisions in a period by urgency and outcome", rate=PER_OPERATOR_QUERY, example=(_NOW, _NOW))
def decisions_between(
    since: datetime, until: datetime, payer_id: str | None = None
) -> SqlRows[DecisionStats]:
    """Return counts and durations. Cancellations are left out: they do not decide on a service."""
    return pagw.rows(
        DecisionStats,
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
    "M9",
    "A request of any tenant, for operators",
    rate=PER_OPERATOR_QUERY,
    example=("PAGW-01JBEXAMPLE000000000000000",),
)
def any_request(pagw_id: str) -> SqlOne[RequestRow]:
    return pagw.one(
        RequestRow, "SELECT {columns} FROM pagw.request_tracker WHERE pagw_id = %(pagw_id)s", pagw_id=pagw_id
    )


@pattern("M10", "Number of stuck and of overdue requests", rate=PER_OPERATOR_QUERY, example=(_NOW, _NOW))
def counted(stuck_before: datetime, due_before: datetime) -> SqlOne[ProblemCounts]:
    """Count the active requests without progress since `stuck_before`, and those due before `due_before`."""
    return pagw.one(
        ProblemCounts,
        """SELECT (SELECT COUNT(*) FROM pagw.request_tracker
                   WHERE status NOT IN ('COMPLETED', 'FAILED', 'CANCELLED')
                     AND NOT (status = 'PENDED' AND stage = 'payer')
                     AND updated_at < %(stuck_before)s) AS stuck,
                  (SELECT COUNT(*) FROM pagw.request_tracker
                   WHERE decided_at IS NULL AND due_at < %(due_before)s
                     AND status NOT IN ('COMPLETED', 'FAILED', 'CANCELLED')) AS overdue""",
        stuck_before=stuck_before,
        due_before=due_before,
    )


@pattern("M11", "The newest requests of all tenants, for operators", rate=PER_OPERATOR_QUERY, example=())
def newest(tenant: str | None = None, status: Status | None = None, limit: int = 50) -> SqlRows[RequestRow]:
    """Select the newest requests, of all tenants and statuses or of one."""
    return pagw.rows(
        RequestRow,
        """SELECT {columns} FROM pagw.request_tracker
           WHERE (%(tenant)s::text IS NULL OR tenant = %(tenant)s)
               AND (%(status)s::text IS NULL OR status = %(status)s)
           ORDER BY created_at DESC, pagw_id DESC LIMIT %(limit)s""",
        tenant=tenant,
        status=status,
        limit=limit,
    ).on_reader()


class GatewayStatus(BaseModel):
    """The gateway's status, for `holdfast pagw status` and for monitoring."""

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


async def get_status(stores: Stores, stuck_minutes: int) -> GatewayStatus:
    """Return the gateway's status. A request without progress for `stuck_minutes` counts as stuck."""
    now = stores.now()
    counts = await stores.run(counted(now - timedelta(minutes=stuck_minutes), now))
    active = await stores.run(active_by_status())
    everything = await stores.run(requests_by_status())
    backlog = await OUTBOX.backlog(stores)
    spread = await stores.run(seconds_since(now - timedelta(days=1)))
    average = await stores.run(average_seconds())
    return GatewayStatus(
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


def format_status(gateway: GatewayStatus, stuck_minutes: int) -> list[str]:
    """Return the status as lines of text."""
    moving = sum(gateway.active.values())
    by_status = [
        f"  {status:<22}{count:>7,}{'' if status in gateway.active else '   ended'}"
        for status, count in gateway.all.items()
    ]
    oldest = (
        "" if not gateway.outbox_waiting else f", the oldest for {_format_seconds(gateway.outbox_oldest_s)}"
    )
    return [
        f"{'requests':<24}{sum(gateway.all.values()):>7,}   {moving:,} of them are active",
        *by_status,
        f"{f'stuck for {stuck_minutes} min':<24}{gateway.stuck:>7,}   `holdfast pagw stuck`",
        f"{'overdue':<24}{gateway.overdue:>7,}   `holdfast pagw overdue`",
        f"{'outbox, waiting':<24}{gateway.outbox_waiting:>7,}{oldest}",
        f"{'outbox, dead':<24}{gateway.outbox_dead:>7,}   `holdfast outbox list pagw`",
        f"duration of a request   {_format_seconds(gateway.average_s):>7} on average; last day without waits "
        "for payers: "
        f"median {_format_seconds(gateway.median_s)}, 95 % within {_format_seconds(gateway.p95_s)}",
    ]


def _format_seconds(value: float | None) -> str:
    return "none" if value is None else f"{value:,.1f} s"
