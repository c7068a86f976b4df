"""The objects store under test: its engine, and a way to damage a stored object."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import TypeVar

from holdfast.operations.objects import BucketDefinition, CreateBucket, Operation
from holdfast.stores.objects.port import Objects

R = TypeVar("R")

START = 1_763_200_000.0


@dataclass
class FakeClock:
    """A clock that a test sets by hand."""

    moment: float = START

    def now(self) -> float:
        return self.moment


# Unique in the process, like the buckets of moto: the fixture may be created more than once.
_NUMBERS = count()


@dataclass
class Store:
    """An objects store under test."""

    name: str
    objects: Objects
    # Changes the stored bytes of an object behind the engine's back: bucket, key.
    damage: Callable[[str, str], None]

    def run(self, operation: Operation[R]) -> R:
        return asyncio.run(self._run(operation))

    def create_bucket(self, **definition: object) -> str:
        """Create a bucket and return its name."""
        name = f"contract-{next(_NUMBERS)}"
        self.run(CreateBucket(BucketDefinition(name=name, **definition)))  # type: ignore[arg-type]
        return name

    async def _run(self, operation: Operation[R]) -> R:
        return await self.objects.run(operation)
