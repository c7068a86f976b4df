"""The lease of a migration: one process at a time runs it, and the lease expires unless it is renewed.

Every transaction of the migration checks the holder, so that a process that slept past the loss of its lease
writes nothing. Time only decides when another process may take over.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from holdfast.core.errors import (
    ConditionFailed,
    LeaseLost,
    RetryLater,
    TransactionCancelled,
    TransactionConflict,
)
from holdfast.guarantees.table_migration.state import MigrationWork
from holdfast.model import ConditionCheck, Put, UlidGenerator, Write
from holdfast.runtime import Stores

POLL_SECONDS: Final = 0.05
MAX_ATTEMPTS: Final = 60
MAX_PAUSE_SECONDS: Final = 0.05

CONDITION_FAILED: Final = "ConditionalCheckFailed"
# Transient: another transaction on the same item, or throttling.
TRANSIENT_CODES: Final = frozenset(
    {"TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"}
)


@dataclass
class MigrationLease:
    """The work of a migration held by one process. `work` is as last saved."""

    stores: Stores
    work: MigrationWork
    seconds: float

    def check(self) -> ConditionCheck[MigrationWork]:
        """Return the check that this process still holds the lease: the first action of every transaction."""
        return MigrationWork.of(self.work.migration).check().when(MigrationWork.holder == self.work.holder)

    async def transact(self, *writes: Write[Any]) -> list[str]:
        """Commit the writes under the lease.

        Return an empty list, or the code of each write if a condition failed. Raises `LeaseLost` if another
        process has taken over. Conflicts and throttling are retried, then raise `RetryLater`.
        """
        for _ in range(MAX_ATTEMPTS):
            try:
                await self.stores.transact(self.check(), *writes)
                return []
            except TransactionCancelled as error:
                own, *codes = [reason.code for reason in error.reasons]
                if own == CONDITION_FAILED:
                    raise self.build_lost_error() from None
                if not TRANSIENT_CODES & {own, *codes}:
                    if CONDITION_FAILED not in codes:
                        raise
                    return codes
            await asyncio.sleep(random.uniform(0, MAX_PAUSE_SECONDS))
        raise RetryLater(
            f"The store is too busy for the migration {self.work.migration}. Run it again at a quieter time."
        )

    async def save(self, **changes: Any) -> None:
        """Save changes of the work's attributes and renew the lease; raise `LeaseLost` if it is lost."""
        until = _now(self.stores) + timedelta(seconds=self.seconds)
        await self._put(self.work.model_copy(update={**changes, "until": until}))

    async def pulse(self) -> None:
        """Renew the lease if a third of it has passed."""
        if self.work.until - _now(self.stores) < timedelta(seconds=self.seconds * 2 / 3):
            await self.save()

    async def release(self) -> None:
        """Release the lease: another process may continue at once."""
        await self._put(self.work.model_copy(update={"until": _now(self.stores)}))

    def build_lost_error(self) -> LeaseLost:
        """Return the error for a lease that another process has taken."""
        return LeaseLost(
            f"Another process has taken over the migration {self.work.migration}. This one has stopped and "
            "writes nothing more."
        )

    async def _put(self, work: MigrationWork) -> None:
        """Write the work; raise `LeaseLost` if another process has taken over."""
        if not await _put(
            self.stores, MigrationWork.put(work).when(MigrationWork.holder == self.work.holder)
        ):
            raise self.build_lost_error()
        self.work = work


async def take_lease(stores: Stores, name: str, seconds: float, *, wait: bool = True) -> MigrationLease:
    """Take the lease for `seconds`; with `wait`, wait until its holder releases it or fails to renew it.

    Raises `RetryLater` at once without `wait`, otherwise after twice `seconds`.
    """
    ends = asyncio.get_running_loop().time() + seconds * 2
    while True:
        seen = await stores.run(MigrationWork.of(name).get().consistent())
        if seen is None or seen.until <= _now(stores):
            lease = await _try_take(stores, name, seen, seconds)
            if lease is not None:
                return lease
        elif not wait or asyncio.get_running_loop().time() > ends:
            raise RetryLater(
                f"The migration {name} is being run by another process (its lease lasts until "
                f"{seen.until:%H:%M:%S} UTC). Let it continue, or retry then."
            )
        await asyncio.sleep(POLL_SECONDS)


async def _try_take(
    stores: Stores, name: str, seen: MigrationWork | None, seconds: float
) -> MigrationLease | None:
    """Take the lease, or return None if another process was faster."""
    holder, until = UlidGenerator(stores.clock).new(), _now(stores) + timedelta(seconds=seconds)
    if seen is None:
        work = MigrationWork(migration=name, holder=holder, until=until)
        put = MigrationWork.create(work)
    else:
        work = seen.model_copy(update={"holder": holder, "until": until})
        put = MigrationWork.put(work).when(
            MigrationWork.holder == seen.holder, MigrationWork.until == seen.until
        )
    return MigrationLease(stores, work, seconds) if await _put(stores, put) else None


async def _put(stores: Stores, put: Put[MigrationWork]) -> bool:
    """Return True if the put was made, False if its condition failed; raise `RetryLater` if the store is too
    busy.
    """
    for _ in range(MAX_ATTEMPTS):
        try:
            await stores.run(put)
            return True
        except ConditionFailed:
            return False
        except TransactionConflict:
            await asyncio.sleep(random.uniform(0, MAX_PAUSE_SECONDS))
    raise RetryLater("The store is too busy for a migration. Run it again at a quieter time.")


def _now(stores: Stores) -> datetime:
    return datetime.fromtimestamp(stores.clock.now(), UTC)
