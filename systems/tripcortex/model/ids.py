"""The ULID generator of each clock in this process: ids in creation order, also within one millisecond."""

from __future__ import annotations

from typing import Final

from holdfast.core.clock import Clock
from holdfast.model.ulids import UlidGenerator

_SOURCES: Final[dict[int, UlidGenerator]] = {}


def get_ulids(clock: Clock) -> UlidGenerator:
    """Return the clock's generator, created on the first call.

    The generator keeps a reference to its clock, so the clock's `id()` is never reused.
    """
    return _SOURCES.setdefault(id(clock), UlidGenerator(clock))
