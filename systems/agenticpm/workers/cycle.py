"""The context of one cycle of one project: its dependencies, its report, and commits under the loop's lease.

All writes of a cycle need the loop's lease: `commit` checks it in the same transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from agenticpm.domain.tickets import Signal
from agenticpm.integrations.clients import IntegrationClients
from agenticpm.model import snapshots
from agenticpm.model.agent_settings import AgentSettings
from agenticpm.model.entities import AgentLease, Project, ProjectId
from agenticpm.model.snapshots import SeenCheckpoint
from agenticpm.workers.writers import Writers
from holdfast import Stores, Write
from holdfast.core.errors import TransactionCancelled
from holdfast.guarantees import HeldLease

# A signal is two items, and its action or escalation up to three more; a transaction has at most a hundred.
SIGNALS_PER_COMMIT: Final = 15

# Called before each step and after each commit: tests interrupt the cycle there.
StepHook = Callable[[str], None]


@dataclass
class CycleReport:
    """The results of one cycle of a project. `errors` are the names of the failed parts."""

    project_id: ProjectId
    tickets: int = 0
    signals: list[Signal] = field(default_factory=list)
    artefacts: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class CycleContext:
    """The dependencies of one cycle, and its report, which the parts of the cycle fill."""

    stores: Stores
    clients: IntegrationClients
    writers: Writers
    on_step: StepHook
    project: Project
    settings: AgentSettings
    lease: HeldLease[AgentLease]
    report: CycleReport

    async def read_checkpoint(self, integration: str, key: str) -> SeenCheckpoint:
        return await snapshots.read_checkpoint(self.stores, self.project.id, integration, key)

    async def commit(self, *writes: Write[Any]) -> None:
        """Commit one transaction while this instance holds the lease.

        Raise LeaseLost if another instance holds it.
        """
        try:
            await self.stores.transact(self.lease.check(), *writes)
        except TransactionCancelled:
            await self.lease.renew()
            raise
