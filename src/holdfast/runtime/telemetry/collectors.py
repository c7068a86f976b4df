"""Collectors for Prometheus' registry: requests over HTTP and to stores, and the process itself.

The figures of the process have the names that every Prometheus client library uses; they are read from /proc,
so there are none on macOS, except those of the garbage collector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final

from holdfast.core.durations import DurationSeries
from holdfast.core.http.request_counts import RequestCounts

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import HistogramMetricFamily
    from prometheus_client.metrics_core import Metric

HTTP_REQUESTS: Final = "holdfast_http_requests"
HTTP_DURATION: Final = "holdfast_http_request_duration_seconds"
HTTP_IN_PROGRESS: Final = "holdfast_http_requests_in_progress"


def build_registry(requests: RequestCounts) -> CollectorRegistry:
    """Return a registry with the figures of the process and its HTTP requests."""
    from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector

    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    GCCollector(registry)
    registry.register(HttpCollector(requests))
    return registry


class HttpCollector:
    """The HTTP requests of a server."""

    def __init__(self, requests: RequestCounts) -> None:
        self._requests = requests

    def collect(self) -> Iterable[Metric]:
        """Yield the number of requests, their durations, and those in progress."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        yield GaugeMetricFamily(
            HTTP_IN_PROGRESS, "HTTP requests that are being answered", self._requests.in_progress
        )
        answered = CounterMetricFamily(
            HTTP_REQUESTS, "Answered HTTP requests", labels=["method", "route", "status"]
        )
        for labels, count in self._requests.count_requests().items():
            answered.add_metric(labels, count)
        yield answered
        yield from DurationCollector(
            HTTP_DURATION, "Seconds until an HTTP response was sent", self._requests.list_durations
        ).collect()


class DurationCollector:
    """A histogram of durations. All samples have the same label names; missing labels are empty."""

    def __init__(self, name: str, text: str, read: Callable[[], Sequence[DurationSeries]]) -> None:
        self._name, self._text, self._read = name, text, read

    def collect(self) -> Iterable[HistogramMetricFamily]:
        """Yield the histogram, if anything was recorded."""
        from prometheus_client.core import HistogramMetricFamily

        if not (found := self._read()):
            return
        names = sorted({name for each in found for name in each.labels})
        family = HistogramMetricFamily(self._name, self._text, labels=names)
        for each in found:
            family.add_metric([each.labels.get(name, "") for name in names], each.buckets, each.total_s)
        yield family
