"""Velocity and cycle time: what was done in each sprint (or week), how long a ticket takes, and where both are going.

Work is counted in points where any ticket has them, otherwise in tickets; a ticket without points then counts nothing.
With few measurements everything is stable: two sprints are no trend.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from enum import StrEnum
from typing import Final

from agenticpm.thresholds import Thresholds
from agenticpm.tickets import Snapshot, Sprint, Stage, Ticket

PERIODS_MAX: Final = 6
PERIODS_MIN: Final = 3
CYCLE_TIMES_MAX: Final = 20
CYCLE_TIMES_MIN: Final = 6
SPRINT_DAYS: Final = 14
# A tracker accepts any number as points. Beyond this it is no estimate, and below a hundredth nobody estimates.
POINTS_MAX: Final = Decimal(10_000)

_DAY: Final = timedelta(days=1)
_WEEK: Final = timedelta(days=7)
_MONDAY: Final = datetime(1970, 1, 5, tzinfo=UTC)


class Trend(StrEnum):
    increasing = "increasing"
    stable = "stable"
    decreasing = "decreasing"


@dataclass(frozen=True, slots=True)
class Velocity:
    """What was done in each of the last periods, oldest first."""

    values: tuple[Decimal, ...]
    unit: str  # points or tickets
    days: Decimal  # of one period
    period: str  # sprint or week
    trend: Trend

    @property
    def per_day(self) -> Decimal | None:
        """The present pace; None while there is none to speak of."""
        if len(self.values) < PERIODS_MIN - 1:
            return None
        return mean(self.values[-PERIODS_MIN:]) / self.days or None


@dataclass(frozen=True, slots=True)
class CycleTime:
    """How many days tickets took from their start to their end, of those done last, oldest first."""

    values: tuple[Decimal, ...]
    trend: Trend

    @property
    def average(self) -> Decimal | None:
        return rounded(mean(self.values)) if self.values else None


def velocity(snapshot: Snapshot, now: datetime, thresholds: Thresholds) -> Velocity:
    """By closed sprints where there are enough of them, otherwise by whole weeks."""
    tickets = list(snapshot.tickets.values())
    in_points = counts_in_points(tickets)
    sprints = _closed_sprints(snapshot)[-PERIODS_MAX:]
    if len(sprints) >= PERIODS_MIN - 1:
        values = tuple(_done(tickets_of(each, tickets), in_points) for each in sprints)
        days, period = mean([_length(each) for each in sprints]), "sprint"
    else:
        values, days, period = _by_week(tickets, in_points, now), Decimal(7), "week"
    trend = trend_of(values, thresholds.velocity_share, least=PERIODS_MIN)
    return Velocity(values, "points" if in_points else "tickets", days, period, trend)


def cycle_time(tickets: Iterable[Ticket], thresholds: Thresholds) -> CycleTime:
    times = sorted(
        (each.resolved_at, each.key, (each.resolved_at - each.started_at) / timedelta(hours=1))
        for each in tickets
        if each.stage is Stage.done and each.started_at and each.resolved_at
        if each.resolved_at >= each.started_at
    )
    values = tuple(rounded(Decimal(str(hours)) / 24) for _, _, hours in times[-CYCLE_TIMES_MAX:])
    return CycleTime(values, trend_of(values, thresholds.cycle_time_share, least=CYCLE_TIMES_MIN))


def trend_of(values: Sequence[Decimal], share: Decimal, *, least: int) -> Trend:
    """Where the recent half stands against the earlier one."""
    if len(values) < least:
        return Trend.stable
    earlier, recent = halves(values)
    if recent > earlier and recent - earlier >= earlier * share:
        return Trend.increasing
    if recent < earlier and earlier - recent >= earlier * share:
        return Trend.decreasing
    return Trend.stable


def halves(values: Sequence[Decimal]) -> tuple[Decimal, Decimal]:
    """The mean of the earlier half and of the recent one; of an odd number, the one in the middle is earlier."""
    middle = len(values) - len(values) // 2
    return mean(values[:middle]), mean(values[middle:])


def counts_in_points(tickets: Iterable[Ticket]) -> bool:
    return any(each.points for each in tickets)


def work(tickets: Iterable[Ticket], in_points: bool) -> Decimal:
    return sum((points_of(each.points) if in_points else Decimal(1) for each in tickets), Decimal(0))


def points_of(points: Decimal | None) -> Decimal:
    """Points as they are summed: none are 0, and what is no estimate is cut to one."""
    return min(max(points or Decimal(0), Decimal(0)), POINTS_MAX).quantize(Decimal("0.01"))


def tickets_of(sprint: Sprint, tickets: Iterable[Ticket]) -> list[Ticket]:
    """Trackers name a sprint by its id or by its name."""
    return [each for each in tickets if each.sprint in (sprint.id, sprint.name)]


def mean(values: Collection[Decimal]) -> Decimal:
    return sum(values, Decimal(0)) / len(values)


def rounded(value: Decimal) -> Decimal:
    return value.quantize(Decimal("0.1"), ROUND_HALF_UP)


def _closed_sprints(snapshot: Snapshot) -> list[Sprint]:
    """Those that ended, oldest first. One of which no ticket was ever seen says nothing about the pace."""
    seen = {each.sprint for each in snapshot.tickets.values()}
    ended = [
        (end, each.id, each)
        for each in snapshot.plan.sprints
        if each.state == "closed" and (end := each.completed_at or each.ends_at)
        if each.id in seen or each.name in seen
    ]
    return [each for _, _, each in sorted(ended, key=lambda one: one[:2])]


def _length(sprint: Sprint) -> Decimal:
    end = sprint.completed_at or sprint.ends_at
    if sprint.starts_at is None or end is None or end - sprint.starts_at < _DAY:
        return Decimal(SPRINT_DAYS)
    return Decimal((end - sprint.starts_at) // _DAY)


def _done(tickets: Iterable[Ticket], in_points: bool) -> Decimal:
    return work((each for each in tickets if each.stage is Stage.done), in_points)


def _by_week(tickets: Sequence[Ticket], in_points: bool, now: datetime) -> tuple[Decimal, ...]:
    """The last whole weeks, none from before the project had its first ticket."""
    if not tickets:
        return ()
    this = _week(now)
    first = max(this - PERIODS_MAX, _week(min(each.created_at for each in tickets)) + 1)
    done: dict[int, list[Ticket]] = {week: [] for week in range(first, this)}
    for each in tickets:
        if each.stage is Stage.done and each.resolved_at and _week(each.resolved_at) in done:
            done[_week(each.resolved_at)].append(each)
    return tuple(work(done[week], in_points) for week in sorted(done))


def _week(moment: datetime) -> int:
    return (moment - _MONDAY) // _WEEK
