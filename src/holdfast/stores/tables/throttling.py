"""Throttle counts: an engine reports how often a request was throttled to the listener of that request.

An engine waits and retries a throttled attempt, so that its caller does not see it. `Stores` listens while a
request runs and records the counts (`Usage.throttle_events`, `Usage.throttled_requests`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(slots=True)
class Throttles:
    """Throttle counts as CloudWatch defines them: events are single reads and writes, requests are
    attempts.
    """

    events: int = 0
    requests: int = 0


_HEARD: ContextVar[Throttles | None] = ContextVar("throttles", default=None)


@contextmanager
def hearing_throttles() -> Iterator[Throttles]:
    """Collect the throttle counts that are reported inside the context."""
    heard = Throttles()
    token = _HEARD.set(heard)
    try:
        yield heard
    finally:
        _HEARD.reset(token)


def tell_throttled(events: int, requests: int) -> None:
    heard = _HEARD.get()
    if heard is not None:
        heard.events += events
        heard.requests += requests
