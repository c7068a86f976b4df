"""The health of payers: what their last calls say, how long they took, and what waits for each.

The gateway has no circuit breaker for payers: a failed call is retried with growing pauses, by the queue of
its stage, for about two hours. So a payer's state is computed from the log of calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from statistics import quantiles
from typing import Any, Final

from holdfast import Pattern, Rate, Stores, pattern
from holdfast.model.sql import SqlRow, SqlRows
from pagw.model import patterns
from pagw.model.entities import PayerRow, pagw
from pagw.model.payer_calls import PayerCallRow, calls_of
from pagw.ops import registry

PER_PAGE: Final = Rate(per="page of an operator")
# Undecided requests of all payers that the backlog counts at most, those due first.
MAX_BACKLOG: Final = 10_000
FAILING_CALLS: Final = 3
UNSTEADY_SHARE: Final = 0.1
_NOW: Final = datetime(2026, 11, 2, 9, tzinfo=UTC)


class PayerState(StrEnum):
    """What the newest calls say: `failing` after several failures in a row, `unsteady` after some."""

    not_called = "not called"
    answers = "answers"
    unsteady = "unsteady"
    failing = "failing"


class Backlog(SqlRow):
    """The undecided requests of one payer: not sent yet, pended, and those past their due time."""

    payer_id: str | None
    unsent: int
    pended: int
    overdue: int
    next_due: datetime


@pattern("M71", "Undecided requests by payer", rate=PER_PAGE, example=(_NOW,))
def backlogs(now: datetime, limit: int = MAX_BACKLOG) -> SqlRows[Backlog]:
    """Count the undecided requests of each payer, among the `limit` that are due first."""
    return pagw.rows(
        Backlog,
        """SELECT payer_id, COUNT(*) FILTER (WHERE status <> 'PENDED') AS unsent,
                  COUNT(*) FILTER (WHERE status = 'PENDED') AS pended,
                  COUNT(*) FILTER (WHERE due_at < %(now)s) AS overdue, MIN(due_at) AS next_due
           FROM (SELECT payer_id, status, due_at FROM pagw.request_tracker
                 WHERE decided_at IS NULL AND status NOT IN ('COMPLETED', 'FAILED', 'CANCELLED')
                 ORDER BY due_at, pagw_id LIMIT %(limit)s) AS undecided
           GROUP BY payer_id""",
        now=now,
        limit=limit,
    )


PATTERNS: Final[tuple[Pattern[..., Any], ...]] = (backlogs, calls_of, registry.payers, patterns.payer)


@dataclass(frozen=True)
class PayerHealth:
    """A payer with its newest calls, newest first, and its backlog. Times are of calls that were answered."""

    payer: PayerRow
    calls: tuple[PayerCallRow, ...] = field(repr=False)
    backlog: Backlog | None
    state: PayerState
    # When the first of the newest failures in a row ended.
    failing_since: datetime | None
    failed: int
    median_ms: float | None
    p95_ms: float | None

    @property
    def last_answer(self) -> PayerCallRow | None:
        """The newest call that the payer answered."""
        return next((each for each in self.calls if each.outcome != "failed"), None)


@dataclass(frozen=True)
class PayerList:
    """A page of payers. `is_partial` says that the backlogs are lower bounds."""

    payers: tuple[PayerHealth, ...]
    is_partial: bool
    next_after: str | None


async def list_payers(stores: Stores, after: str = "", limit: int = 25) -> PayerList:
    """Return a page of payers with their health, by id."""
    rows = await stores.run(registry.payers(after, limit + 1))
    shown = tuple(rows[:limit])
    found, is_partial = await _load_health(stores, shown)
    return PayerList(found, is_partial, shown[-1].payer_id if len(rows) > limit else None)


async def get_payer_health(stores: Stores, payer_id: str) -> tuple[PayerHealth, bool] | None:
    """Return a payer's health, and whether its backlog is a lower bound; None for an unknown payer."""
    row = await stores.run(patterns.payer(payer_id))
    if row is None:
        return None
    (found,), is_partial = await _load_health(stores, (row,))
    return found, is_partial


async def _load_health(stores: Stores, rows: Sequence[PayerRow]) -> tuple[tuple[PayerHealth, ...], bool]:
    """Return the health of payers, and whether more requests are undecided than were counted."""
    calls = await stores.run(calls_of([each.payer_id for each in rows])) if rows else ()
    waiting = {each.payer_id: each for each in await stores.run(backlogs(stores.now()))}
    counted = sum(each.unsent + each.pended for each in waiting.values())
    health = tuple(
        build_health(
            row,
            tuple(each for each in calls if each.payer_id == row.payer_id),
            waiting.get(row.payer_id),
        )
        for row in rows
    )
    return health, counted >= MAX_BACKLOG


def build_health(payer: PayerRow, calls: tuple[PayerCallRow, ...], backlog: Backlog | None) -> PayerHealth:
    """Compute the health of a payer from its newest calls, newest first."""
    failures = _count_newest_failures(calls)
    failed = sum(each.outcome == "failed" for each in calls)
    times = sorted(each.took_ms for each in calls if each.outcome != "failed")
    spread = quantiles(times, n=20, method="inclusive") if len(times) > 1 else times * 19
    return PayerHealth(
        payer,
        calls,
        backlog,
        _choose_state(len(calls), failures, failed),
        calls[failures - 1].at if failures else None,
        failed,
        spread[9] if spread else None,
        spread[18] if spread else None,
    )


def _count_newest_failures(calls: Sequence[PayerCallRow]) -> int:
    """Return how many of the newest calls failed in a row."""
    return next((place for place, each in enumerate(calls) if each.outcome != "failed"), len(calls))


def _choose_state(calls: int, newest_failures: int, failed: int) -> PayerState:
    if not calls:
        return PayerState.not_called
    if newest_failures >= FAILING_CALLS:
        return PayerState.failing
    return PayerState.unsteady if failed > UNSTEADY_SHARE * calls else PayerState.answers
