"""A round: one cycle of one project, with what it works with and what comes of it.

Its writes are made while the loop's lease is this instance's: `written` checks that in the same transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from agenticpm import snapshots
from agenticpm.configs import Configs
from agenticpm.model import Project, ProjectId
from agenticpm.parties import Parties
from agenticpm.snapshots import Mark
from agenticpm.tickets import Signal
from agenticpm.writers import Writers
from holdfast import Stores, Write
from holdfast.errors import TransactionCancelled
from holdfast.guarantees import HeldLease

# A signal is two items, what it calls for up to three more; a transaction holds a hundred.
SIGNALS_PER_COMMIT: Final = 15

# Told before each step, and after what was committed: tests die there.
Step = Callable[[str], None]


@dataclass
class Cycle:
    """What a cycle of a project did."""

    project_id: ProjectId
    tickets: int = 0
    signals: list[Signal] = field(default_factory=list)
    artefacts: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Round:
    stores: Stores
    parties: Parties
    writers: Writers
    step: Step
    project: Project
    settings: Configs
    lease: HeldLease
    cycle: Cycle

    async def mark(self, integration: str, key: str) -> Mark:
        return await snapshots.mark(self.stores, self.project.id, integration, key)

    async def written(self, *writes: Write[Any]) -> None:
        """One transaction, while the lease is this instance's. Where it is another's, the turn ends: LeaseLost."""
        try:
            await self.stores.transact(self.lease.check(), *writes)
        except TransactionCancelled:
            await self.lease.renew()
            raise
