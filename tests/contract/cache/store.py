"""The cache under test: its engine, a clock that the test sets, and a way to lose all data."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import TypeVar

from holdfast.operations.cache import Operation
from holdfast.stores.cache.port import Cache

R = TypeVar("R")

START = 1_763_200_000.0
_NUMBERS = count()


@dataclass
class FakeClock:
    """A clock that a test sets by hand."""

    moment: float = START

    def now(self) -> float:
        return self.moment


@dataclass
class Store:
    """A cache under test."""

    name: str
    cache: Cache
    clock: FakeClock
    # Opens another engine, as another process would, on the same data where possible.
    open_another: Callable[[], Cache]
    # Deletes all data.
    lose_everything: Callable[[], object]

    def run(self, operation: Operation[R]) -> R:
        return asyncio.run(self._run(operation))

    def key(self) -> str:
        """Return a unique key: all tests share the server."""
        return f"contract:{next(_NUMBERS)}"

    async def _run(self, operation: Operation[R]) -> R:
        return await self.cache.run(operation)
