"""How long requests took, as a histogram for Prometheus, counted by hand.

It is told of every request to every store, on the way of whoever asked: OpenTelemetry's own histogram would take several
times as long for each. `Metrics` shows it beside OpenTelemetry's instruments.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import TypeAlias

Labels: TypeAlias = tuple[tuple[str, str], ...]


class Latencies:
    """Any thread may tell and ask. `bounds` are the upper ends of the buckets, which belong to them."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(bounds)
        # By labels: how many fell into each bucket, the last for what is beyond all bounds; and their sum.
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}
        self._lock = threading.Lock()

    def record(self, ms: float, labels: Labels) -> None:
        with self._lock:
            counts = self._counts.get(labels)
            if counts is None:
                counts = self._counts[labels] = [0] * (len(self._bounds) + 1)
                self._sums[labels] = 0.0
            counts[bisect_left(self._bounds, ms)] += 1
            self._sums[labels] += ms

    def found(self) -> list[tuple[dict[str, str], list[tuple[str, float]], float]]:
        """By labels: how many took at most so long, for each bound and for all; and the sum of all."""
        with self._lock:
            told = [(dict(each), list(counts), self._sums[each]) for each, counts in self._counts.items()]
        names = (*map(str, self._bounds), "+Inf")
        return [
            (labels, list(zip(names, map(float, accumulate(counts)), strict=True)), total)
            for labels, counts, total in told
        ]
