"""Measure in alternating rounds (ours, the floor, ours, the floor …), so that both see the same noise.

The figure is the median of the rounds' ratios, reported with their spread.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

ROUNDS: Final = 7
# Called with the progress of slow benchmarks; `report.py` displays it.
progress_listeners: Final[list[Callable[[str], None]]] = []


class Figure(msgspec.Struct, frozen=True):
    """The result of one benchmark. Rates are per second. `must_reach` is the lowest acceptable ratio, or
    None.

    `ratio` is the median of ours divided by the floor; `ratio_low` and `ratio_high` are the extremes.
    """

    name: str
    rate: float
    floor_rate: float
    ratio: float
    ratio_low: float
    ratio_high: float
    must_reach: float | None

    @property
    def passed(self) -> bool:
        """True if the ratio reaches its target, or if there is none."""
        return self.must_reach is None or self.ratio >= self.must_reach


def compare(
    name: str,
    ours: Callable[[], float],
    floor: Callable[[], float],
    must_reach: float | None,
) -> Figure:
    """Run alternating rounds after a warm-up and build their figure.

    `ours` and `floor` do a round of work and return its rate.
    """
    ours(), floor()  # a warm-up: caches, connections and prepared statements
    return build_figure(name, [(ours(), floor()) for _ in range(ROUNDS)], must_reach)


def build_figure(name: str, rounds: Sequence[tuple[float, float]], must_reach: float | None) -> Figure:
    """Build a figure from the rates of each round, ours and the floor's."""
    ratios = sorted(ours / floor for ours, floor in rounds)
    return Figure(
        name,
        statistics.median(ours for ours, _ in rounds),
        statistics.median(floor for _, floor in rounds),
        statistics.median(ratios),
        ratios[0],
        ratios[-1],
        must_reach,
    )


def measure_rate(work: Callable[[], object], times: int) -> float:
    """Return how often per second `work` runs, over this many calls."""
    start = time.perf_counter()
    for _ in range(times):
        work()
    return times / (time.perf_counter() - start)


def report_progress(what: str, done: int, total: int) -> None:
    """Pass the progress of a slow benchmark to the listeners."""
    for listener in progress_listeners:
        listener(f"{what}: {done:,} of {total:,}")
