"""Rates from counters: over restarts, gaps and several processes."""

from __future__ import annotations

import pytest

from holdfast.console.overview.rates import average_rates, compute_rates, sum_rates
from holdfast.console.overview.samples import ProcessState, Rates
from holdfast.console.overview.targets import CounterKey, TargetReading

REQUESTS: CounterKey = ("requests", "")


def read(at: float, count: float, *, started_at: float = 1.0) -> TargetReading:
    state = ProcessState("http://127.0.0.1:1", started_at=started_at)
    return TargetReading(state, at, {REQUESTS: count})


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (read(0, 100), read(10, 150), 5.0),
        (read(0, 100), read(10, 100), 0.0),
        # It was restarted: what it counted since is new, even if that is more than before.
        (read(0, 100), read(10, 20, started_at=2.0), 2.0),
        (read(0, 100), read(10, 300, started_at=2.0), 30.0),
        # Without a start time, as on macOS, a lower count says that it was restarted.
        (read(0, 100, started_at=0.0), read(10, 30, started_at=0.0), 3.0),
        # It did not answer in between: the rate is over the whole time.
        (read(0, 100), read(40, 180), 2.0),
    ],
)
def test_rate_is_what_was_counted_per_second(
    before: TargetReading, now: TargetReading, expected: float
) -> None:
    assert (compute_rates(before, now) or {})[REQUESTS] == pytest.approx(expected)


def test_first_reading_has_no_rate() -> None:
    assert compute_rates(None, read(10, 100)) is None
    assert sum_rates([], {}) is None


def test_counter_that_is_new_counts_from_zero() -> None:
    before = TargetReading(ProcessState("u", started_at=1.0), 0.0, {})

    assert (compute_rates(before, read(10, 50)) or {})[REQUESTS] == pytest.approx(5)


def test_processes_are_summed_under_the_declared_names_of_tables() -> None:
    several: list[dict[CounterKey, float]] = [
        {REQUESTS: 1.0, ("read_units", "dev-Orders"): 2.0, ("write_units", "dev-Orders"): 0.0},
        {REQUESTS: 3.0, ("read_units", "dev-Orders"): 0.5, ("queue_requests", "parcels"): 1.0},
    ]

    assert sum_rates(several, {"dev-Orders": "Orders"}) == Rates(
        requests=4.0, read_units={"Orders": 2.5}, queue_requests={"parcels": 1.0}
    )


def test_mean_counts_a_table_without_units_as_zero() -> None:
    mean = average_rates([Rates(requests=2.0, read_units={"Orders": 4.0}), Rates(requests=4.0)])

    assert mean == Rates(requests=3.0, read_units={"Orders": 2.0})
    assert average_rates([]) is None
