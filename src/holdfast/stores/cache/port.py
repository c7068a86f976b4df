"""The port of a cache store: the protocol that every cache engine implements, and what each engine promises.

Every engine promises: it returns a value as it was put or not at all; it never returns a value after its
lifetime, which the caller's clock decides; it checks a condition and acts on it in one atomic step. No engine
promises that a value is still there.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from holdfast.operations.cache import Operation

R = TypeVar("R")


class Cache(Protocol):
    """A cache store."""

    async def run(self, operation: Operation[R]) -> R:
        """Run one operation.

        Every error it raises is a `HoldfastError`; `CacheUnavailable` if the cache does not respond.
        """
        ...

    def close(self) -> None:
        """Release the engine's resources; later operations raise `StoreClosed`."""
        ...
