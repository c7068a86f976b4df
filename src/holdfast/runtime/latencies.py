"""How long requests took, as a histogram for Prometheus, counted by hand.

It is told of every request to every store, on the way of whoever asked: OpenTelemetry's own histogram would take several
times as long for each. `Metrics` has one in its registry, beside OpenTelemetry's instruments.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from prometheus_client.core import HistogramMetricFamily

Labels: TypeAlias = tuple[tuple[str, str], ...]


class Latencies:
    """Any thread may tell and ask. `bounds` are the upper ends of the buckets, which belong to them."""

    def __init__(self, name: str, description: str, bounds: Sequence[float]) -> None:
        self._name, self._description, self._bounds = name, description, tuple(bounds)
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

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """As a registry of Prometheus asks. All have the same names of labels, those that one lacks are empty."""
        from prometheus_client.core import HistogramMetricFamily

        with self._lock:
            found = [(dict(each), list(counts), self._sums[each]) for each, counts in self._counts.items()]
        if not found:
            return
        names = sorted({name for labels, _, _ in found for name in labels})
        family = HistogramMetricFamily(self._name, self._description, labels=names)
        for labels, counts, total in found:
            buckets = zip((*map(str, self._bounds), "+Inf"), accumulate(counts), strict=True)
            family.add_metric([labels.get(name, "") for name in names], list(buckets), total)
        yield family
