"""The port of a cache: it runs operations, whichever engine is behind it.

What every engine promises: a value is given back as it was put or not at all; it is not given back after its
lifetime, which goes by the clock of whoever asks; a condition is judged and acted on in one step. What none
promises: that a value is still there.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from holdfast.operations.cache import Operation

R = TypeVar("R")


class Cache(Protocol):
    async def run(self, operation: Operation[R]) -> R:
        """Do one operation. Whatever it raises is a `HoldfastError`; a cache that does not answer is
        `CacheUnavailable`.
        """
        ...

    def close(self) -> None: ...
