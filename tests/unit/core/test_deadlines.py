"""`DeadlineWatch`: a deadline farther away than it can be ends after that time of the reader's own clock."""

from __future__ import annotations

import pytest

from holdfast.core.clock import SystemClock
from holdfast.core.deadlines import DeadlineWatch

NOW = 1_770_000_000.0
DAY_S = 86_400.0
MAX_S = 30.0


class ManualClock:
    """Clock that moves only when the test sets `moment`."""

    moment = NOW

    def now(self) -> float:
        return self.moment


def test_keeps_a_deadline_within_the_bound() -> None:
    watch = DeadlineWatch(ManualClock())
    for deadline in (NOW - DAY_S, NOW, NOW + MAX_S):
        assert watch.compute_left_s("a", 1, deadline, MAX_S) == deadline - NOW


def test_ends_a_deadline_beyond_the_bound_one_period_after_it_was_first_seen() -> None:
    clock = ManualClock()
    watch = DeadlineWatch(clock)
    assert watch.compute_left_s("a", 1, NOW + DAY_S, MAX_S) == MAX_S
    clock.moment += 10
    assert watch.compute_left_s("a", 1, NOW + DAY_S, MAX_S) == MAX_S - 10
    clock.moment += 20
    assert watch.compute_left_s("a", 1, NOW + DAY_S, MAX_S) == 0


def test_never_extends_a_deadline() -> None:
    clock = ManualClock()
    watch = DeadlineWatch(clock)
    watch.compute_left_s("a", 1, NOW + MAX_S + 5, MAX_S)
    clock.moment += 10
    assert watch.compute_left_s("a", 1, NOW + MAX_S + 5, MAX_S) == MAX_S - 10
    assert watch.compute_left_s("a", 2, clock.moment + 1, MAX_S) == 1


def test_starts_again_for_each_version_so_that_a_live_holder_is_never_overtaken() -> None:
    clock = ManualClock()
    watch = DeadlineWatch(clock)
    for renewal in range(10):
        assert watch.compute_left_s("a", renewal, clock.moment + DAY_S, MAX_S) == MAX_S
        clock.moment += MAX_S / 3


def test_watches_each_key_by_itself() -> None:
    clock = ManualClock()
    watch = DeadlineWatch(clock)
    watch.compute_left_s("a", 1, NOW + DAY_S, MAX_S)
    clock.moment += MAX_S
    assert watch.compute_left_s("b", 1, NOW + DAY_S, MAX_S) == MAX_S


def test_a_clock_that_is_set_back_starts_the_wait_again() -> None:
    clock = ManualClock()
    watch = DeadlineWatch(clock)
    watch.compute_left_s("a", 1, NOW + DAY_S, MAX_S)
    clock.moment -= DAY_S
    assert watch.compute_left_s("a", 1, NOW + DAY_S, MAX_S) == MAX_S
    clock.moment += MAX_S
    assert watch.compute_left_s("a", 1, NOW + DAY_S, MAX_S) == 0


def test_a_machines_clock_that_is_set_forward_does_not_end_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    wall, elapsed = [NOW], [100.0]
    monkeypatch.setattr("holdfast.core.clock.time.time", lambda: wall[0])
    monkeypatch.setattr("holdfast.core.clock.time.monotonic", lambda: elapsed[0])
    watch = DeadlineWatch(SystemClock())
    watch.compute_left_s("a", 1, NOW + DAY_S, MAX_S)
    wall[0] += DAY_S / 2
    elapsed[0] += 10
    assert watch.compute_left_s("a", 1, NOW + DAY_S, MAX_S) == MAX_S - 10


def test_less_than_an_error_of_rounding_is_nothing() -> None:
    clock = ManualClock()
    clock.moment += 0.1
    watch = DeadlineWatch(clock)
    assert watch.compute_left_s("a", 1, clock.moment + 0.000_001, MAX_S) == 0


def test_allows_one_look_per_period() -> None:
    clock = ManualClock()
    watch = DeadlineWatch(clock)
    assert [watch.should_look("a", 30), watch.should_look("a", 30), watch.should_look("b", 30)] == [
        *(True, False, True)
    ]
    clock.moment += 30
    assert watch.should_look("a", 30)
    clock.moment -= DAY_S
    assert watch.should_look("a", 30)


def test_forgets_the_oldest_beyond_its_size() -> None:
    clock = ManualClock()
    watch = DeadlineWatch(clock, max_watched=2)
    for key in "abc":
        watch.compute_left_s(key, 1, NOW + DAY_S, MAX_S)
    clock.moment += MAX_S
    assert watch.compute_left_s("c", 1, NOW + DAY_S, MAX_S) == 0
    assert watch.compute_left_s("a", 1, NOW + DAY_S, MAX_S) == MAX_S
