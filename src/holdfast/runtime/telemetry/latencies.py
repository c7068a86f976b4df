"""A latency histogram for Prometheus, counted without OpenTelemetry.

It records every request to every store, inside the caller's request: OpenTelemetry's histogram would take
several times as long for each. `Metrics` shows it next to OpenTelemetry's instruments.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import TypeAlias

Labels: TypeAlias = tuple[tuple[str, str], ...]


class Latencies:
    """A thread-safe histogram. `bounds` are the inclusive upper bounds of the buckets, in milliseconds."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(bounds)
        # By labels: the count per bucket (the last one is above all bounds) and the sum.
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}
        self._lock = threading.Lock()

    def record(self, ms: float, labels: Labels) -> None:
        """Add one request's milliseconds under these labels."""
        with self._lock:
            counts = self._counts.get(labels)
            if counts is None:
                counts = self._counts[labels] = [0] * (len(self._bounds) + 1)
                self._sums[labels] = 0.0
            counts[bisect_left(self._bounds, ms)] += 1
            self._sums[labels] += ms

    def snapshot(self) -> list[tuple[dict[str, str], list[tuple[str, float]], float]]:
        """Return per label set the cumulative count for each bound and for all, and the sum."""
        with self._lock:
            copied = [(dict(each), list(counts), self._sums[each]) for each, counts in self._counts.items()]
        names = (*map(str, self._bounds), "+Inf")
        return [
            (labels, list(zip(names, map(float, accumulate(counts)), strict=True)), total)
            for labels, counts, total in copied
        ]
