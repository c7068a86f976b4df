"""What every operation is: a frozen value that says which result it gives."""

from __future__ import annotations

from typing import Generic, Literal, TypeAlias, TypeVar

import msgspec

R_co = TypeVar("R_co", covariant=True)

CapacityDetail: TypeAlias = Literal["NONE", "TOTAL", "INDEXES"]


class Operation(msgspec.Struct, Generic[R_co], frozen=True, kw_only=True):
    """One thing to do on a tables store. `pattern` is the id of the access pattern that made it."""

    pattern: str | None = None


class ItemOperation(Operation[R_co], frozen=True, kw_only=True):
    """An operation on items: it can be asked what it consumed."""

    capacity: CapacityDetail = "NONE"
