"""`RequestCounts`: the HTTP requests that a server answered, by method, route and status, with durations.

The labels are bounded: a route is a declared template or operation, never a path of a request, and an unknown
method is `other`. So no client can make the metrics grow, and no id reaches them. Counting is part of every
request: one lookup and three additions.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from typing import Final, TypeAlias

from holdfast.core.durations import DurationSeries, build_series

# Of every request for which no route was found, or which was refused before one was.
UNMATCHED: Final = "unmatched"
# The client was gone before the response began.
NO_STATUS: Final = 0
DURATION_BOUNDS_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_EMPTY: Final = [0.0] * (len(DURATION_BOUNDS_S) + 2)

RequestKey: TypeAlias = tuple[str, str, int]
"""The method, the route and the status."""


class RequestCounts:
    """The requests of one server. Only the thread of its event loop counts; any thread may read."""

    def __init__(self) -> None:
        self.in_progress = 0
        # The count per bucket (the last one is above all bounds), then the sum of the seconds.
        self._series: dict[RequestKey, list[float]] = {}

    def start(self) -> float:
        """Count a request as in progress and return the time to pass to `finish`."""
        self.in_progress += 1
        return time.perf_counter()

    def finish(self, started: float, method: str, route: str, status: int) -> None:
        """Count a request as answered. `route` is a declared template, or `UNMATCHED`."""
        seconds = time.perf_counter() - started
        self.in_progress -= 1
        key = (method if method in _METHODS else "other", route, status)
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = _EMPTY.copy()
        series[bisect_left(DURATION_BOUNDS_S, seconds)] += 1
        series[-1] += seconds

    def count_requests(self) -> dict[tuple[str, str, str], int]:
        """Return the number of answered requests by method, route and status; `none` is no status."""
        return {
            (method, route, str(status) if status else "none"): int(sum(series[:-1]))
            for (method, route, status), series in list(self._series.items())
        }

    def list_durations(self) -> list[DurationSeries]:
        """Return the durations by method and route."""
        totals: dict[tuple[str, str], list[float]] = {}
        for (method, route, _), series in list(self._series.items()):
            total = totals.setdefault((method, route), _EMPTY.copy())
            total[:] = map(sum, zip(total, series, strict=True))
        return [
            build_series({"method": method, "route": route}, DURATION_BOUNDS_S, total[:-1], total[-1])
            for (method, route), total in totals.items()
        ]
