"""Velocity and cycle time: work done per sprint (or week), days per ticket, and the trends of both.

Work is counted in points if any ticket has points, otherwise in tickets; a ticket without points then counts
zero. With few measurements the trend is stable: two sprints are not a trend.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from enum import StrEnum
from typing import Final

from agenticpm.domain.thresholds import Thresholds
from agenticpm.domain.tickets import Snapshot, Sprint, Ticket, TicketStage

MAX_PERIODS: Final = 6
MIN_PERIODS: Final = 3
MAX_CYCLE_TIMES: Final = 20
MIN_CYCLE_TIMES: Final = 6
SPRINT_DAYS: Final = 14
# Trackers accept any number as points. Points are clamped to this, and rounded to hundredths.
MAX_POINTS: Final = Decimal(10_000)

_DAY: Final = timedelta(days=1)
_WEEK: Final = timedelta(days=7)
_MONDAY: Final = datetime(1970, 1, 5, tzinfo=UTC)


class Trend(StrEnum):
    increasing = "increasing"
    stable = "stable"
    decreasing = "decreasing"


@dataclass(frozen=True, slots=True)
class Velocity:
    """The work done in each of the last periods, oldest first."""

    values: tuple[Decimal, ...]
    unit: str  # points or tickets
    days: Decimal  # of one period
    period: str  # sprint or week
    trend: Trend

    @property
    def per_day(self) -> Decimal | None:
        """The current work per day, or None without enough measurements or if nothing was done."""
        if len(self.values) < MIN_PERIODS - 1:
            return None
        return mean(self.values[-MIN_PERIODS:]) / self.days or None


@dataclass(frozen=True, slots=True)
class CycleTime:
    """Days from start to end of the tickets done last (at most 20), oldest first."""

    values: tuple[Decimal, ...]
    trend: Trend

    @property
    def average(self) -> Decimal | None:
        """The average in days, rounded to a tenth, or None without measurements."""
        return round_to_tenth(mean(self.values)) if self.values else None


def compute_velocity(snapshot: Snapshot, now: datetime, thresholds: Thresholds) -> Velocity:
    """Compute the velocity of the last six closed sprints; of whole weeks if fewer than two have closed."""
    tickets = list(snapshot.tickets.values())
    in_points = has_points(tickets)
    sprints = _list_closed_sprints(snapshot)[-MAX_PERIODS:]
    if len(sprints) >= MIN_PERIODS - 1:
        values = tuple(_sum_done(select_sprint_tickets(each, tickets), in_points) for each in sprints)
        days, period = mean([_get_length_days(each) for each in sprints]), "sprint"
    else:
        values, days, period = _sum_by_week(tickets, in_points, now), Decimal(7), "week"
    trend = compute_trend(values, thresholds.velocity_share, min_values=MIN_PERIODS)
    return Velocity(values, "points" if in_points else "tickets", days, period, trend)


def compute_cycle_time(tickets: Iterable[Ticket], thresholds: Thresholds) -> CycleTime:
    """Compute the cycle times of the last 20 done tickets that have a start and an end."""
    times = sorted(
        (each.resolved_at, each.key, (each.resolved_at - each.started_at) / timedelta(hours=1))
        for each in tickets
        if each.stage is TicketStage.done and each.started_at and each.resolved_at
        if each.resolved_at >= each.started_at
    )
    values = tuple(round_to_tenth(Decimal(str(hours)) / 24) for _, _, hours in times[-MAX_CYCLE_TIMES:])
    return CycleTime(values, compute_trend(values, thresholds.cycle_time_share, min_values=MIN_CYCLE_TIMES))


def compute_trend(values: Sequence[Decimal], share: Decimal, *, min_values: int) -> Trend:
    """Compare the mean of the recent half with that of the earlier half.

    Return `stable` if they differ by less than `share`, or with fewer than `min_values` values.
    """
    if len(values) < min_values:
        return Trend.stable
    earlier, recent = compute_half_means(values)
    if recent > earlier and recent - earlier >= earlier * share:
        return Trend.increasing
    if recent < earlier and earlier - recent >= earlier * share:
        return Trend.decreasing
    return Trend.stable


def compute_half_means(values: Sequence[Decimal]) -> tuple[Decimal, Decimal]:
    """Return the means of the earlier and the recent half; a middle value counts as earlier."""
    middle = len(values) - len(values) // 2
    return mean(values[:middle]), mean(values[middle:])


def has_points(tickets: Iterable[Ticket]) -> bool:
    """Return whether any ticket has points other than 0."""
    return any(each.points for each in tickets)


def sum_work(tickets: Iterable[Ticket], in_points: bool) -> Decimal:
    """Sum the points of the tickets, or count the tickets."""
    return sum((clamp_points(each.points) if in_points else Decimal(1) for each in tickets), Decimal(0))


def clamp_points(points: Decimal | None) -> Decimal:
    """Return points as they are summed: None is 0, clamped to 0 to 10,000, rounded to hundredths."""
    return min(max(points or Decimal(0), Decimal(0)), MAX_POINTS).quantize(Decimal("0.01"))


def select_sprint_tickets(sprint: Sprint, tickets: Iterable[Ticket]) -> list[Ticket]:
    """Return the tickets of a sprint, which trackers refer to by id or by name."""
    return [each for each in tickets if each.sprint in (sprint.id, sprint.name)]


def mean(values: Collection[Decimal]) -> Decimal:
    """Return the mean. The values must not be empty."""
    return sum(values, Decimal(0)) / len(values)


def round_to_tenth(value: Decimal) -> Decimal:
    return value.quantize(Decimal("0.1"), ROUND_HALF_UP)


def _list_closed_sprints(snapshot: Snapshot) -> list[Sprint]:
    """List the closed sprints that have known tickets and an end, oldest first."""
    seen = {each.sprint for each in snapshot.tickets.values()}
    ended = [
        (end, each.id, each)
        for each in snapshot.plan.sprints
        if each.state == "closed" and (end := each.completed_at or each.ends_at)
        if each.id in seen or each.name in seen
    ]
    return [each for _, _, each in sorted(ended, key=lambda one: one[:2])]


def _get_length_days(sprint: Sprint) -> Decimal:
    """Return the sprint's length in whole days; 14 if it is unknown or under a day."""
    end = sprint.completed_at or sprint.ends_at
    if sprint.starts_at is None or end is None or end - sprint.starts_at < _DAY:
        return Decimal(SPRINT_DAYS)
    return Decimal((end - sprint.starts_at) // _DAY)


def _sum_done(tickets: Iterable[Ticket], in_points: bool) -> Decimal:
    return sum_work((each for each in tickets if each.stage is TicketStage.done), in_points)


def _sum_by_week(tickets: Sequence[Ticket], in_points: bool, now: datetime) -> tuple[Decimal, ...]:
    """Sum the work done in each of the last six whole weeks, from the week after the first ticket."""
    if not tickets:
        return ()
    this = _get_week(now)
    first = max(this - MAX_PERIODS, _get_week(min(each.created_at for each in tickets)) + 1)
    done: dict[int, list[Ticket]] = {week: [] for week in range(first, this)}
    for each in tickets:
        if each.stage is TicketStage.done and each.resolved_at and _get_week(each.resolved_at) in done:
            done[_get_week(each.resolved_at)].append(each)
    return tuple(sum_work(done[week], in_points) for week in sorted(done))


def _get_week(moment: datetime) -> int:
    """Return the number of the week since 1970, from Monday."""
    return (moment - _MONDAY) // _WEEK
