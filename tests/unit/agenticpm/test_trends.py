"""Velocity and cycle time: measured by sprint or week, one place, and stable while there is little to measure."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from agenticpm.domain.thresholds import Thresholds, parse_thresholds
from agenticpm.domain.trends import Trend, clamp_points, compute_cycle_time, compute_trend, compute_velocity
from tests.unit.agenticpm.sample_snapshots import DAY, NOW, START, done, falling_velocity, snapshot, ticket

T = Thresholds()


def numbers(*values: int) -> tuple[Decimal, ...]:
    return tuple(map(Decimal, values))


def test_velocity_is_what_each_closed_sprint_did_oldest_first() -> None:
    found = compute_velocity(falling_velocity(), NOW, T)
    assert found.values == numbers(20, 20, 10, 10)
    assert (found.unit, found.period, found.days) == ("points", "sprint", Decimal(14))
    assert found.trend is Trend.decreasing
    assert found.per_day == Decimal(40) / 3 / 14


def test_without_sprints_velocity_is_counted_by_whole_weeks_also_those_in_which_nothing_was_done() -> None:
    monday = datetime(2026, 2, 9, tzinfo=NOW.tzinfo)
    tickets = [
        done("A-1", monday - 20 * DAY),
        done("A-2", monday - 19 * DAY),
        done("A-3", monday - timedelta(seconds=1)),
        done("A-4", monday),  # this week is not over
        ticket("A-5"),
    ]
    found = compute_velocity(snapshot(*tickets), NOW, T)
    assert found.values == numbers(0, 0, 2, 0, 1)
    assert (found.unit, found.period) == ("tickets", "week")


def test_no_week_from_before_the_first_ticket_counts() -> None:
    young = [done("A-1", NOW - 8 * DAY, created_at=NOW - 15 * DAY)]
    assert compute_velocity(snapshot(*young), NOW, T).values == numbers(1)
    assert compute_velocity(snapshot(), NOW, T).values == ()
    assert compute_velocity(snapshot(), NOW, T).per_day is None


def test_a_closed_sprint_of_which_no_ticket_was_seen_does_not_count_as_one_that_did_nothing() -> None:
    falling = falling_velocity()
    kept = {key: each for key, each in falling.tickets.items() if each.sprint in ("3", "4")}
    assert compute_velocity(falling.model_copy(update={"tickets": kept}), NOW, T).values == numbers(10, 10)


def test_cycle_time_is_from_start_to_end_in_days_with_one_place() -> None:
    taken = [
        done("A-1", START, started_at=START - timedelta(days=4, hours=6)),
        done("A-2", START + DAY, started_at=START - timedelta(days=3)),
        done("A-3", START, started_at=START + DAY),  # ended before its start: no measurement
        ticket("A-4", started_at=START),
    ]
    found = compute_cycle_time(taken, T)
    assert found.values == (Decimal("4.3"), Decimal("4.0"))
    assert found.average == Decimal("4.2")
    assert compute_cycle_time([], T).average is None


def test_cycle_time_rolls_on_with_the_tickets_done_last() -> None:
    slow = [done(f"A-{n}", START + n * DAY, started_at=START + (n - 9) * DAY) for n in range(20)]
    quick = [done(f"B-{n}", START + (30 + n) * DAY, started_at=START + (29 + n) * DAY) for n in range(10)]
    assert compute_cycle_time(slow, T).trend is Trend.stable
    assert compute_cycle_time(slow + quick, T).values == numbers(*[9] * 10, *[1] * 10)
    assert compute_cycle_time(slow + quick, T).trend is Trend.decreasing


def test_few_measurements_are_no_trend() -> None:
    assert compute_trend([Decimal(100), Decimal(1)], Decimal("0.2"), min_values=3) is Trend.stable
    assert compute_trend([], Decimal("0.2"), min_values=3) is Trend.stable
    assert compute_trend([Decimal(0)] * 6, Decimal("0.2"), min_values=3) is Trend.stable


def test_a_trend_turns_exactly_at_its_share() -> None:
    steady, share = [Decimal(10), Decimal(10)], Decimal("0.2")
    assert compute_trend([*steady, Decimal(8)], share, min_values=3) is Trend.decreasing
    assert compute_trend([*steady, Decimal("8.1")], share, min_values=3) is Trend.stable
    assert compute_trend([*steady, Decimal(12)], share, min_values=3) is Trend.increasing
    assert compute_trend([*steady, Decimal("11.9")], share, min_values=3) is Trend.stable


@given(
    st.lists(st.integers(0, 50).map(Decimal), min_size=4, max_size=12).filter(lambda each: len(each) % 2 == 0)
)
def test_what_rises_falls_when_it_is_read_backwards_unless_it_is_stable(values: list[Decimal]) -> None:
    forth = compute_trend(values, Decimal("0.2"), min_values=3)
    back = compute_trend(values[::-1], Decimal("0.2"), min_values=3)
    assert (forth, back) not in [(Trend.increasing, Trend.increasing), (Trend.decreasing, Trend.decreasing)]
    if forth is Trend.decreasing:
        assert back is Trend.increasing


def test_a_project_sets_its_own_thresholds_and_keeps_the_others() -> None:
    own = parse_thresholds({"thresholds": {"stale_working_days": 2}})
    assert own.stale_working_days == 2
    assert own.review_days == Thresholds().review_days
    assert parse_thresholds({}) == Thresholds()


def test_what_is_no_estimate_is_cut_to_one() -> None:
    given = (None, Decimal(-3), Decimal("2.504"), Decimal(10) ** 15)
    assert [clamp_points(each) for each in given] == [0, 0, Decimal("2.5"), 10_000]
