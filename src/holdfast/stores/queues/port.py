"""The port of a queues store: the protocol that every queues engine implements."""

from __future__ import annotations

from typing import Protocol, TypeVar

from holdfast.operations.queues import Operation

R = TypeVar("R")


class Queues(Protocol):
    """A queues store."""

    # Whether Browse shows messages without receiving them.
    can_peek: bool

    async def run(self, operation: Operation[R]) -> R:
        """Run one operation. Every error it raises is a `HoldfastError`."""
        ...

    def close(self) -> None:
        """Release the engine's resources; later operations raise `StoreClosed`."""
        ...
