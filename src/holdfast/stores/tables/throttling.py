"""How often a request was throttled on its way, told by an engine to whoever listens.

An engine waits a throttled attempt out and tries again, so that its caller sees nothing of it. `Stores`
listens while a request runs, and writes down what it heard (`Usage.throttle_events`,
`Usage.throttled_requests`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(slots=True)
class Throttles:
    """Events are single reads and writes, requests are attempts: as CloudWatch counts both."""

    events: int = 0
    requests: int = 0


_HEARD: ContextVar[Throttles | None] = ContextVar("throttles", default=None)


@contextmanager
def hearing_throttles() -> Iterator[Throttles]:
    """Collects what is told inside."""
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
