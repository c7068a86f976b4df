"""Correlation ids: one text that follows an event through queue, worker, effect, audit and log.

The entry point that accepts an event binds an id; a sent message carries it, and its receiver binds it again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from holdfast.core.rng import draw_bits

__all__ = [
    "bind_correlation_id",
    "get_correlation_id",
]

_CURRENT: ContextVar[str | None] = ContextVar("correlation", default=None)


def get_correlation_id() -> str | None:
    """Return the id that is bound in this context, or None."""
    return _CURRENT.get()


@contextmanager
def bind_correlation_id(id: str | None = None) -> Iterator[str]:
    """Bind `id`, or a new random one if None, for the block and yield it; tasks that are started inside
    inherit it.
    """
    bound = id or f"{draw_bits(128):032x}"
    token = _CURRENT.set(bound)
    try:
        yield bound
    finally:
        _CURRENT.reset(token)
