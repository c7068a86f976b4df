"""The port of a tables store: the protocol that every tables engine implements."""

from __future__ import annotations

from typing import Protocol, TypeVar

from holdfast.operations.tables import Operation

R = TypeVar("R")


class Tables(Protocol):
    """A tables store."""

    async def run(self, operation: Operation[R]) -> R:
        """Run one operation. Every error it raises is a `HoldfastError`."""
        ...
