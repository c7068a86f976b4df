"""An objects store under test: its engine, a clock that can be moved where it is ours, and a way to damage an object."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import TypeVar

from holdfast.operations.objects import BucketDefinition, CreateBucket, Operation
from holdfast.stores.objects.port import Objects

R = TypeVar("R")

BEGAN = 1_763_200_000.0


@dataclass
class Hands:
    """A clock in the test's hands."""

    moment: float = BEGAN

    def now(self) -> float:
        return self.moment


# Of the whole process, as are the buckets of moto: the fixture may be made more than once.
_NUMBERS = count()


@dataclass
class Store:
    name: str
    objects: Objects
    # Changes the stored bytes of an object behind the engine's back: bucket, key.
    damage: Callable[[str, str], None]

    def run(self, operation: Operation[R]) -> R:
        return asyncio.run(self._run(operation))

    def bucket(self, **definition: object) -> str:
        """A bucket of its own."""
        name = f"contract-{next(_NUMBERS)}"
        self.run(CreateBucket(BucketDefinition(name=name, **definition)))  # type: ignore[arg-type]
        return name

    async def _run(self, operation: Operation[R]) -> R:
        return await self.objects.run(operation)
