"""Throttle counts: how an engine reports throttled attempts to the code that runs the operation.

An engine waits and retries a throttled attempt, so that its caller does not see it. `Stores` collects the
counts while a request runs and records them (`Usage.throttle_events`, `Usage.throttled_requests`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(slots=True)
class Throttles:
    """Throttle counts as CloudWatch defines them.

    Events are single reads and writes, requests are attempts.
    """

    events: int = 0
    requests: int = 0


_THROTTLES: ContextVar[Throttles | None] = ContextVar("throttles", default=None)


@contextmanager
def collect_throttles() -> Iterator[Throttles]:
    """Collect the throttle counts that engines report inside the context."""
    throttles = Throttles()
    token = _THROTTLES.set(throttles)
    try:
        yield throttles
    finally:
        _THROTTLES.reset(token)


def report_throttles(events: int, requests: int) -> None:
    """Add to the counts of the enclosing `collect_throttles`. Without one, do nothing."""
    throttles = _THROTTLES.get()
    if throttles is not None:
        throttles.events += events
        throttles.requests += requests
