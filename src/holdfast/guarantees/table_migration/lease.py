"""The lease of a migration: one process at a time runs it, and every transaction of it checks the lease.

The record of the lease is the `MigrationWork`: each renewal saves the positions that the process has reached.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final

from holdfast.core.errors import InProgress, LeaseLost, RetryLater, TransactionCancelled
from holdfast.core.rng import RNG
from holdfast.guarantees.resilience.lease import HeldLease, Lease
from holdfast.guarantees.table_migration.state import MigrationWork
from holdfast.model.operations import Write
from holdfast.model.patterns import Rate
from holdfast.runtime import Stores

POLL_S: Final = 0.05
MAX_ATTEMPTS: Final = 60
MAX_PAUSE_S: Final = 0.05

CONDITION_FAILED: Final = "ConditionalCheckFailed"
# Transient: another transaction on the same item, or throttling.
TRANSIENT_CODES: Final = frozenset(
    {"TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"}
)

WORK: Final = Lease(MigrationWork, prefix="MW", rate=Rate("migration"), example="tickets")


@dataclass
class MigrationLease(HeldLease[MigrationWork]):
    """The right of one process to run a migration. `record` is its work, as last saved."""

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
            await asyncio.sleep(RNG.uniform(0, MAX_PAUSE_S))
        raise RetryLater(
            f"The store is too busy for the migration {self.record.name}. Run it again at a quieter time."
        )

    async def pulse(self) -> None:
        """Renew the lease if a third of it has passed, or if the clock was set back."""
        left_s = self.record.until - self.stores.clock.now()
        if not self.lease_s * 2 / 3 <= left_s <= self.lease_s:
            await self.renew()

    def build_lost_error(self) -> LeaseLost:
        """Return the error for a migration that another process has taken over."""
        return LeaseLost(
            f"Another process has taken over the migration {self.record.name}. This one has stopped and "
            "writes nothing more."
        )


async def take_lease(stores: Stores, name: str, lease_s: float, *, wait: bool = True) -> MigrationLease:
    """Take the lease for `lease_s` seconds; with `wait`, wait until its holder releases it or fails to renew
    it.

    Raises `RetryLater` at once without `wait`, otherwise after twice `lease_s`.
    """
    ends = asyncio.get_running_loop().time() + lease_s * 2
    while True:
        try:
            held = await WORK.take(stores, name, lease_s=lease_s)
            return MigrationLease(held.lease, held.stores, held.record, held.lease_s)
        except InProgress as error:
            if not wait or asyncio.get_running_loop().time() > ends:
                raise RetryLater(
                    f"The migration {name} is being run by another process, whose lease lasts another "
                    f"{error.retry_after_s:.0f} s. Let it continue, or retry then.",
                    retry_after_s=error.retry_after_s,
                ) from None
        await asyncio.sleep(POLL_S)
