"""Ids that sort as they were made, also within one millisecond: one source for each clock of a process."""

from __future__ import annotations

from typing import Final

from holdfast import Ulids
from holdfast.clock import Clock

_SOURCES: Final[dict[int, Ulids]] = {}


def ids_of(clock: Clock) -> Ulids:
    """A source keeps its clock, so that no other is ever taken for it."""
    return _SOURCES.setdefault(id(clock), Ulids(clock))
