"""Alternating rounds: ours, the floor, ours, the floor … so that both see the same noise.

The figure is the median of the rounds' ratios; the spread of the ratios is told beside it.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

ROUNDS: Final = 7
# Told what a benchmark is doing, where that takes minutes: `report.py` shows it.
listeners: Final[list[Callable[[str], None]]] = []


class Figure(msgspec.Struct, frozen=True):
    """Rates are per second. `must_reach` is the least ratio that is acceptable; None for one told beside it."""

    name: str
    rate: float
    floor_rate: float
    ratio: float
    ratio_low: float
    ratio_high: float
    must_reach: float | None

    @property
    def passed(self) -> bool:
        return self.must_reach is None or self.ratio >= self.must_reach


def compared(
    name: str,
    ours: Callable[[], float],
    floor: Callable[[], float],
    must_reach: float | None,
) -> Figure:
    """`ours` and `floor` each do a round of work and return its rate."""
    ours(), floor()  # caches, connections and the first statements are prepared before the clock counts
    return figure_of(name, [(ours(), floor()) for _ in range(ROUNDS)], must_reach)


def figure_of(name: str, rounds: Sequence[tuple[float, float]], must_reach: float | None) -> Figure:
    """Of the rates of some rounds: ours and the floor's."""
    ratios = sorted(mine / theirs for mine, theirs in rounds)
    return Figure(
        name,
        statistics.median(mine for mine, _ in rounds),
        statistics.median(theirs for _, theirs in rounds),
        statistics.median(ratios),
        ratios[0],
        ratios[-1],
        must_reach,
    )


def rate(work: Callable[[], object], times: int) -> float:
    """How often per second `work` is done, over so many times."""
    start = time.perf_counter()
    for _ in range(times):
        work()
    return times / (time.perf_counter() - start)


def tell(what: str, done: int, whole: int) -> None:
    for listener in listeners:
        listener(f"{what}: {done:,} of {whole:,}")
