"""One turn of AgenticPM's loop, executor or daily work, in a process that ends itself by SIGKILL at a given moment.

Moments are counted: each step that the loop tells of, each request to the store before and after it (those that write
also by themselves), each effect at a party before and after it. At one of them the process dies, or stands still until it is told to go on. For
`test_agenticpm_killed.py`; the same turns, in its own process, are what the undisturbed run is made of.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any, Literal

from agenticpm.integrations.clients import IntegrationClients
from agenticpm.model import escalations
from agenticpm.model.entities import Integration
from agenticpm.system import SYSTEM
from agenticpm.workers import actions, digest
from agenticpm.workers.loop import Loop
from agenticpm.workers.writers import open_writers
from holdfast import Stores, open_stores
from holdfast.operations.tables import GetItem, Operation, Query, Scan
from holdfast.stores.tables.port import Tables

Role = Literal["loop", "executor", "daily"]
Moment = Literal["step", "request", "write", "act"]

READS = (GetItem, Query, Scan)
OUTWARD = ("comment", "move", "send")


@dataclass(frozen=True)
class Death:
    """At the so-manieth moment of its kind; a step may also be named. Of all others, the odd ones are before it
    and the even ones after. `stops` stands still instead."""

    moment: Moment
    number: int = 1
    name: str | None = None
    stops: bool = False


def main(role: Role, variables: Mapping[str, str], death: Death | None, told: Connection) -> None:
    """The body of the process. It says what it begins with (`begun`, …) and what came of it (`done`, …)."""
    os.environ.update(variables)
    logging.basicConfig(filename=variables["AGENTICPM_TEST_LOG"], level=logging.WARNING)
    fate = Fate(death, told.send)
    found = asyncio.run(_turned(role, fate))
    told.send(("done", found))


async def _turned(role: Role, fate: Fate) -> dict[str, Any]:
    async with open_stores(SYSTEM) as stores:
        stores.tables = _WatchedTables(stores.tables, fate)
        return await turned(role, stores, fate)


async def turned(role: Role, stores: Stores, fate: Fate) -> dict[str, Any]:
    """One turn, and what came of it."""
    if role == "daily":
        return {"digest": await digest.make_daily_digest(stores.for_component("loop")) is not None}
    own = stores.for_component(role)
    async with _WatchedParties(own, fate=fate) as parties:
        if role == "executor":
            return await _executed(own, parties)
        async with open_writers(own) as writers:
            turn = await Loop(own, parties, writers, on_step=fate.step).tick()
    errors = [error for cycle in turn.cycles for error in cycle.errors]
    return {"why_not": turn.skip_reason, "cycles": len(turn.cycles), "errors": errors, "steps": fate.steps}


async def _executed(stores: Stores, parties: IntegrationClients) -> dict[str, Any]:
    executed = await actions.execute_due(stores, parties)
    await escalations.expire_due(stores)
    return {"done": executed.done, "later": executed.later, "refused": executed.refused}


class Fate:
    """Counts the moments, and ends the process at the one that it is told."""

    def __init__(self, death: Death | None = None, tell: Callable[[Any], None] = lambda _: None) -> None:
        self.steps: list[str] = []
        self._death, self._tell = death, tell
        self._counts: Counter[str] = Counter()

    def step(self, name: str) -> None:
        if not self.steps:
            self._tell(("begun", name))
        self.steps.append(name)
        self.moment("step", name)

    def moment(self, kind: Moment, name: str | None = None) -> None:
        death = self._death
        if death is None or death.moment != kind or (death.name is not None and death.name != name):
            return
        self._counts[kind] += 1
        if self._counts[kind] != death.number:
            return
        if not death.stops:
            os.kill(os.getpid(), signal.SIGKILL)
        self._tell(("stopped", name))
        os.kill(os.getpid(), signal.SIGSTOP)


class _WatchedTables:
    """A store whose every request is two moments."""

    def __init__(self, tables: Tables, fate: Fate) -> None:
        self._tables, self._fate = tables, fate

    async def run(self, operation: Operation[Any]) -> Any:
        kinds: tuple[Moment, ...] = ("request",) if isinstance(operation, READS) else ("request", "write")
        for kind in kinds:
            self._fate.moment(kind)
        result = await self._tables.run(operation)
        for kind in kinds:
            self._fate.moment(kind)
        return result

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tables, name)


@dataclass
class _WatchedParties(IntegrationClients):
    """Parties whose every effect is two moments."""

    fate: Fate = field(default_factory=Fate)

    async def get_client(self, integration: Integration) -> Any:
        return _WatchedParty(await super().get_client(integration), self.fate)


class _WatchedParty:
    def __init__(self, party: Any, fate: Fate) -> None:
        self._party, self._fate = party, fate

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._party, name)
        if name not in OUTWARD:
            return method

        async def acting(*arguments: Any) -> Any:
            self._fate.moment("act")
            outcome = await method(*arguments)
            self._fate.moment("act")
            return outcome

        return acting
