"""The correlation id: one text that follows an event through queue, worker, effect, audit and log.

Whoever takes an event in binds one; a message that is sent carries it, and who receives the message binds it again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from holdfast.chance import CHANCE

_CURRENT: ContextVar[str | None] = ContextVar("correlation", default=None)


def correlation_id() -> str | None:
    """The id that is bound where this runs; None where none is."""
    return _CURRENT.get()


@contextmanager
def correlated(id: str | None = None) -> Iterator[str]:
    """Binds an id, or a new one, for what runs inside; tasks that are started inside inherit it."""
    # No secret: the system need not be asked for chance.
    bound = id or f"{CHANCE.getrandbits(128):032x}"
    token = _CURRENT.set(bound)
    try:
        yield bound
    finally:
        _CURRENT.reset(token)
