"""`RequestCounts`: the HTTP requests that a server answered, by method, route and status, with durations.

The labels are bounded: a route is a declared template or operation, never a path of a request, and an unknown
method is `other`. So no client can make the metrics grow, and no id reaches them.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from typing import Final

from holdfast.core.durations import Durations

# Of every request for which no route was found, or which was refused before one was.
UNMATCHED: Final = "unmatched"
# The client was gone before the response began.
NO_STATUS: Final = "none"
DURATION_BOUNDS_S: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class RequestCounts:
    """The requests of one server. Any thread may read them."""

    def __init__(self) -> None:
        self.durations = Durations(DURATION_BOUNDS_S)
        self.in_progress = 0
        self._by_labels: Counter[tuple[str, str, str]] = Counter()
        self._lock = threading.Lock()

    def start(self) -> float:
        """Count a request as in progress and return the time to pass to `finish`."""
        with self._lock:
            self.in_progress += 1
        return time.perf_counter()

    def finish(self, started: float, method: str, route: str, status: str) -> None:
        """Count a request as answered. `route` is a declared template, or `UNMATCHED`."""
        seconds = time.perf_counter() - started
        method = method if method in _METHODS else "other"
        with self._lock:
            self.in_progress -= 1
            self._by_labels[method, route, status] += 1
        self.durations.record(seconds, (("method", method), ("route", route)))

    def snapshot(self) -> list[tuple[tuple[str, str, str], int]]:
        """Return the number of answered requests by method, route and status."""
        with self._lock:
            return list(self._by_labels.items())
