"""A cache under test: its engine, and the clock that its lifetimes go by."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import TypeVar

from holdfast.operations.cache import Operation
from holdfast.stores.cache.port import Cache

R = TypeVar("R")

BEGAN = 1_763_200_000.0
_NUMBERS = count()


@dataclass
class Hands:
    """A clock in the test's hands."""

    moment: float = BEGAN

    def now(self) -> float:
        return self.moment


@dataclass
class Store:
    name: str
    cache: Cache
    clock: Hands
    # Another engine, of another process as it were, on the same data where that can be.
    beside: Callable[[], Cache]
    # Everything is lost.
    lose: Callable[[], object]

    def run(self, operation: Operation[R]) -> R:
        return asyncio.run(self._run(operation))

    def key(self) -> str:
        """One of its own: the server is shared by all tests."""
        return f"contract:{next(_NUMBERS)}"

    async def _run(self, operation: Operation[R]) -> R:
        return await self.cache.run(operation)
