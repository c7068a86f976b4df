"""The base of every tables operation: a frozen value whose type names its result type."""

from __future__ import annotations

from typing import Generic, Literal, TypeAlias, TypeVar

import msgspec

R_co = TypeVar("R_co", covariant=True)

CapacityDetail: TypeAlias = Literal["NONE", "TOTAL", "INDEXES"]
"""How much an operation reports of the capacity that it consumed."""


class Operation(msgspec.Struct, Generic[R_co], frozen=True, kw_only=True):
    """One operation on a tables store. `pattern` is the id of the access pattern that built it."""

    pattern: str | None = None


class ItemOperation(Operation[R_co], frozen=True, kw_only=True):
    """An operation on items, which can report the capacity it consumed."""

    capacity: CapacityDetail = "NONE"
