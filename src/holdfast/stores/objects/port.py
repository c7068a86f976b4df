"""The port of an objects store: the protocol that every objects engine implements."""

from __future__ import annotations

from typing import Protocol, TypeVar

from holdfast.operations.objects import Operation

R = TypeVar("R")


class Objects(Protocol):
    """An objects store."""

    async def run(self, operation: Operation[R]) -> R:
        """Run one operation. Every error it raises is a `HoldfastError`."""
        ...

    def close(self) -> None:
        """Release the engine's resources; later operations raise `StoreClosed`."""
        ...
