"""Tests of velocity and cycle time: measured by sprint or week, and stable with few measurements."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from agenticpm.domain.thresholds import Thresholds, parse_thresholds
from agenticpm.domain.trends import Trend, clamp_points, compute_cycle_time, compute_trend, compute_velocity
from tests.systems.agenticpm.unit.sample_snapshots import (
    DAY,
    NOW,
    START,
    make_done_ticket,
    make_falling_velocity,
    make_snapshot,
    make_ticket,
)

T = Thresholds()


def numbers(*values: int) -> tuple[Decimal, ...]:
    return tuple(map(Decimal, values))


def test_velocity_is_the_work_of_each_closed_sprint_oldest_first() -> None:
    found = compute_velocity(make_falling_velocity(), NOW, T)
    assert found.values == numbers(20, 20, 10, 10)
    assert (found.unit, found.period, found.days) == ("points", "sprint", Decimal(14))
    assert found.trend is Trend.decreasing
    assert found.per_day == Decimal(40) / 3 / 14


def test_velocity_without_sprints_counts_whole_weeks_including_empty_ones() -> None:
    monday = datetime(2026, 2, 9, tzinfo=NOW.tzinfo)
    tickets = [
        make_done_ticket("A-1", monday - 20 * DAY),
        make_done_ticket("A-2", monday - 19 * DAY),
        make_done_ticket("A-3", monday - timedelta(seconds=1)),
        make_done_ticket("A-4", monday),  # this week is not over
        make_ticket("A-5"),
    ]
    found = compute_velocity(make_snapshot(*tickets), NOW, T)
    assert found.values == numbers(0, 0, 2, 0, 1)
    assert (found.unit, found.period) == ("tickets", "week")


def test_ignores_weeks_before_the_first_ticket() -> None:
    young = [make_done_ticket("A-1", NOW - 8 * DAY, created_at=NOW - 15 * DAY)]
    assert compute_velocity(make_snapshot(*young), NOW, T).values == numbers(1)
    assert compute_velocity(make_snapshot(), NOW, T).values == ()
    assert compute_velocity(make_snapshot(), NOW, T).per_day is None


def test_closed_sprint_without_visible_tickets_does_not_count_as_empty() -> None:
    falling = make_falling_velocity()
    kept = {key: each for key, each in falling.tickets.items() if each.sprint in ("3", "4")}
    assert compute_velocity(falling.model_copy(update={"tickets": kept}), NOW, T).values == numbers(10, 10)


def test_cycle_time_is_from_start_to_end_in_days_with_one_place() -> None:
    taken = [
        make_done_ticket("A-1", START, started_at=START - timedelta(days=4, hours=6)),
        make_done_ticket("A-2", START + DAY, started_at=START - timedelta(days=3)),
        make_done_ticket("A-3", START, started_at=START + DAY),  # ended before its start: not a measurement
        make_ticket("A-4", started_at=START),
    ]
    found = compute_cycle_time(taken, T)
    assert found.values == (Decimal("4.3"), Decimal("4.0"))
    assert found.average == Decimal("4.2")
    assert compute_cycle_time([], T).average is None


def test_cycle_time_rolls_with_the_last_done_tickets() -> None:
    slow = [make_done_ticket(f"A-{n}", START + n * DAY, started_at=START + (n - 9) * DAY) for n in range(20)]
    quick = [
        make_done_ticket(f"B-{n}", START + (30 + n) * DAY, started_at=START + (29 + n) * DAY)
        for n in range(10)
    ]
    assert compute_cycle_time(slow, T).trend is Trend.stable
    assert compute_cycle_time(slow + quick, T).values == numbers(*[9] * 10, *[1] * 10)
    assert compute_cycle_time(slow + quick, T).trend is Trend.decreasing


def test_few_measurements_are_stable() -> None:
    assert compute_trend([Decimal(100), Decimal(1)], Decimal("0.2"), min_values=3) is Trend.stable
    assert compute_trend([], Decimal("0.2"), min_values=3) is Trend.stable
    assert compute_trend([Decimal(0)] * 6, Decimal("0.2"), min_values=3) is Trend.stable


def test_trend_changes_exactly_at_its_threshold() -> None:
    steady, share = [Decimal(10), Decimal(10)], Decimal("0.2")
    assert compute_trend([*steady, Decimal(8)], share, min_values=3) is Trend.decreasing
    assert compute_trend([*steady, Decimal("8.1")], share, min_values=3) is Trend.stable
    assert compute_trend([*steady, Decimal(12)], share, min_values=3) is Trend.increasing
    assert compute_trend([*steady, Decimal("11.9")], share, min_values=3) is Trend.stable


@given(
    st.lists(st.integers(0, 50).map(Decimal), min_size=4, max_size=12).filter(lambda each: len(each) % 2 == 0)
)
def test_reversed_rising_values_fall_unless_stable(values: list[Decimal]) -> None:
    forth = compute_trend(values, Decimal("0.2"), min_values=3)
    back = compute_trend(values[::-1], Decimal("0.2"), min_values=3)
    assert (forth, back) not in [(Trend.increasing, Trend.increasing), (Trend.decreasing, Trend.decreasing)]
    if forth is Trend.decreasing:
        assert back is Trend.increasing


def test_project_overrides_single_thresholds() -> None:
    own = parse_thresholds({"thresholds": {"stale_working_days": 2}})
    assert own.stale_working_days == 2
    assert own.review_days == Thresholds().review_days
    assert parse_thresholds({}) == Thresholds()


def test_clamps_estimates() -> None:
    given = (None, Decimal(-3), Decimal("2.504"), Decimal(10) ** 15)
    assert [clamp_points(each) for each in given] == [0, 0, Decimal("2.5"), 10_000]
