"""The port of an objects store: it runs operations, whichever engine implements it."""

from __future__ import annotations

from typing import Protocol, TypeVar

from holdfast.operations.objects import Operation

R = TypeVar("R")


class Objects(Protocol):
    async def run(self, operation: Operation[R]) -> R:
        """Run one operation. Every error it raises is a `HoldfastError`."""
        ...

    def close(self) -> None: ...
