"""Who may go on with a migration: one process at a time, by a lease that ends without a sign of life.

The right is not a matter of clocks. Every transaction of the work checks that the lease still has this holder, so that
a process which slept through the loss of its lease can write nothing any more. Time only decides when another may
take over.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from holdfast.errors import (
    ConditionFailed,
    LeaseLost,
    RetryLater,
    TransactionCancelled,
    TransactionConflict,
)
from holdfast.guarantees.migration.state import MigrationWork
from holdfast.model import Check, Put, Ulids, Write
from holdfast.runtime import Stores

POLL_SECONDS: Final = 0.05
ATTEMPTS_MAX: Final = 60
PAUSE_SECONDS_MAX: Final = 0.05

NOT_SO: Final = "ConditionalCheckFailed"
# What passes by itself: another transaction on the same item, or too much at once.
PASSING: Final = frozenset({"TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"})


@dataclass
class Lease:
    """The work of a migration in the hands of one process. `work` is as it was saved last."""

    stores: Stores
    work: MigrationWork
    seconds: float

    def check(self) -> Check[MigrationWork]:
        """The first action of every transaction of the work."""
        return MigrationWork.of(self.work.migration).check().when(MigrationWork.holder == self.work.holder)

    async def transact(self, *writes: Write[Any]) -> list[str]:
        """All or nothing, and only under the lease. Empty when it is written; else each action's code, by which
        one can tell whose condition did not hold."""
        for _ in range(ATTEMPTS_MAX):
            try:
                await self.stores.transact(self.check(), *writes)
                return []
            except TransactionCancelled as error:
                own, *codes = [reason.code for reason in error.reasons]
                if own == NOT_SO:
                    raise self.lost() from None
                if not PASSING & {own, *codes}:
                    if NOT_SO not in codes:
                        raise
                    return codes
            await asyncio.sleep(random.uniform(0, PAUSE_SECONDS_MAX))
        raise RetryLater(
            f"The store is too busy for the migration {self.work.migration}: run it again when it is quieter."
        )

    async def save(self, **changes: Any) -> None:
        """Keeps the lease, with what has changed of the work."""
        until = _now(self.stores) + timedelta(seconds=self.seconds)
        await self._put(self.work.model_copy(update={**changes, "until": until}))

    async def pulse(self) -> None:
        """A sign of life, when a third of the lease has passed."""
        if self.work.until - _now(self.stores) < timedelta(seconds=self.seconds * 2 / 3):
            await self.save()

    async def release(self) -> None:
        """Another may go on at once."""
        await self._put(self.work.model_copy(update={"until": _now(self.stores)}))

    def lost(self) -> LeaseLost:
        return LeaseLost(
            f"Another process has taken over the migration {self.work.migration}: this one has stopped, and nothing "
            "that it had begun is written."
        )

    async def _put(self, work: MigrationWork) -> None:
        if not await _put(
            self.stores, MigrationWork.put(work).when(MigrationWork.holder == self.work.holder)
        ):
            raise self.lost()
        self.work = work


async def taken(stores: Stores, name: str, seconds: float, *, wait: bool = True) -> Lease:
    """The lease, once the process that has it gives it up or shows no sign of life for as long as it may."""
    ends = asyncio.get_running_loop().time() + seconds * 2
    while True:
        seen = await stores.run(MigrationWork.of(name).get().consistent())
        if seen is None or seen.until <= _now(stores):
            lease = await _grasped(stores, name, seen, seconds)
            if lease is not None:
                return lease
        elif not wait or asyncio.get_running_loop().time() > ends:
            raise RetryLater(
                f"The migration {name} is being run by another process, which showed a sign of life a moment ago "
                f"(its lease lasts until {seen.until:%H:%M:%S} UTC): let it go on, or try again then."
            )
        await asyncio.sleep(POLL_SECONDS)


async def _grasped(stores: Stores, name: str, seen: MigrationWork | None, seconds: float) -> Lease | None:
    """None if another was quicker."""
    holder, until = Ulids(stores.clock).new(), _now(stores) + timedelta(seconds=seconds)
    if seen is None:
        work = MigrationWork(migration=name, holder=holder, until=until)
        put = MigrationWork.create(work)
    else:
        work = seen.model_copy(update={"holder": holder, "until": until})
        put = MigrationWork.put(work).when(
            MigrationWork.holder == seen.holder, MigrationWork.until == seen.until
        )
    return Lease(stores, work, seconds) if await _put(stores, put) else None


async def _put(stores: Stores, put: Put[MigrationWork]) -> bool:
    """Whether it was done: its condition did hold."""
    for _ in range(ATTEMPTS_MAX):
        try:
            await stores.run(put)
            return True
        except ConditionFailed:
            return False
        except TransactionConflict:
            await asyncio.sleep(random.uniform(0, PAUSE_SECONDS_MAX))
    raise RetryLater("The store is too busy for a migration: run it again when it is quieter.")


def _now(stores: Stores) -> datetime:
    return datetime.fromtimestamp(stores.clock.now(), UTC)
