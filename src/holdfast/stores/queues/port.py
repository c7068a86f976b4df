"""The port of a queues store: it runs operations, whichever engine implements it."""

from __future__ import annotations

from typing import Protocol, TypeVar

from holdfast.operations.queues import Operation

R = TypeVar("R")


class Queues(Protocol):
    async def run(self, operation: Operation[R]) -> R:
        """Run one operation. Every error it raises is a `HoldfastError`."""
        ...

    def close(self) -> None: ...
