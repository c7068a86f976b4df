"""The port of a tables store: it runs operations, whichever engine is behind it."""

from __future__ import annotations

from typing import Protocol, TypeVar

from holdfast.operations.tables import Operation

R = TypeVar("R")


class Tables(Protocol):
    async def run(self, operation: Operation[R]) -> R:
        """Do one operation. Whatever it raises is a `HoldfastError`."""
        ...
