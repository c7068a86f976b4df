"""A histogram of durations, for the requests to stores; and the form in which all are read.

It records every request inside the request itself: OpenTelemetry's histogram would take several times as long
for each. The metrics show it next to OpenTelemetry's instruments.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple, TypeAlias

Labels: TypeAlias = tuple[tuple[str, str], ...]


class DurationSeries(NamedTuple):
    """The durations under one set of labels: the count up to each bound and for all, and the sum."""

    labels: dict[str, str]
    buckets: list[tuple[str, float]]
    total_s: float


class Durations:
    """A thread-safe histogram. `bounds` are the inclusive upper bounds of the buckets, in seconds."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(bounds)
        # By labels: the count per bucket (the last one is above all bounds) and the sum.
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}
        self._lock = threading.Lock()

    def record(self, seconds: float, labels: Labels) -> None:
        """Add one duration under these labels."""
        with self._lock:
            counts = self._counts.get(labels)
            if counts is None:
                counts = self._counts[labels] = [0] * (len(self._bounds) + 1)
                self._sums[labels] = 0.0
            counts[bisect_left(self._bounds, seconds)] += 1
            self._sums[labels] += seconds

    def snapshot(self) -> list[DurationSeries]:
        """Return the series of each set of labels, with cumulative counts."""
        with self._lock:
            copied = [(dict(each), list(counts), self._sums[each]) for each, counts in self._counts.items()]
        return [build_series(labels, self._bounds, counts, total) for labels, counts, total in copied]


def build_series(
    labels: dict[str, str], bounds: Sequence[float], counts: Sequence[float], total_s: float
) -> DurationSeries:
    """Return a series from the count of each bucket; the last bucket is above all bounds."""
    names = (*map(str, bounds), "+Inf")
    return DurationSeries(labels, list(zip(names, map(float, accumulate(counts)), strict=True)), total_s)
