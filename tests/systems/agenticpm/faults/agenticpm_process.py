"""One turn of AgenticPM's loop, executor or daily work, in a process that kills itself at a given point.

Points are counted: each step that the loop reports, before and after each request to the store (writes are
also counted separately), and before and after each effect at an external service. At one of them the process
dies, or waits for a line of input. `test_agenticpm_killed.py` runs the same turns in its own process for
the undisturbed run.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from agenticpm.integrations.clients import IntegrationClients
from agenticpm.model.entities import Integration
from agenticpm.system import SYSTEM
from agenticpm.workers import actions, digest, escalations
from agenticpm.workers.loop import Loop
from agenticpm.workers.writers import open_writers
from holdfast import Stores, open_stores
from holdfast.operations.tables import GetItem, Query, Scan
from tests.faults.kill_points import KillableEngine, Request, kill_this_process

Role = Literal["loop", "executor", "daily"]
PointKind = Literal["step", "request", "write", "act"]

READS = (GetItem, Query, Scan)
OUTWARD = ("comment", "move", "send")


@dataclass(frozen=True)
class KillPoint:
    """A point of a kind, by number; a step may also be named.

    Except for steps, odd numbers are before the operation and even ones after. With `waits` the process waits
    instead of dying.
    """

    kind: PointKind
    number: int = 1
    name: str | None = None
    waits: bool = False


async def main(role: Role, kill_point: KillPoint | None) -> None:
    """Run one turn in this process. It sends `begun` with its first step, and `done` with its result."""
    logging.basicConfig(level=logging.WARNING)
    found = await _open_and_run_turn(role, KillSwitch(kill_point, _send))
    _send(("done", found))


def _send(message: tuple[str, Any]) -> None:
    """Write a message to standard output, as a line of JSON."""
    os.write(1, json.dumps(message).encode() + b"\n")


async def _open_and_run_turn(role: Role, kill_switch: KillSwitch) -> dict[str, Any]:
    async with open_stores(SYSTEM) as stores:
        stores.tables = KillableEngine(stores.tables, kill_switch.reach_around)
        return await run_turn(role, stores, kill_switch)


async def run_turn(role: Role, stores: Stores, kill_switch: KillSwitch) -> dict[str, Any]:
    """Run one turn in a role and return its result."""
    if role == "daily":
        return {"digest": await digest.make_daily_digest(stores.for_component("loop")) is not None}
    own = stores.for_component(role)
    async with _WatchedClients(own, kill_switch=kill_switch) as clients:
        if role == "executor":
            return await _execute(own, clients)
        async with open_writers(own) as writers:
            turn = await Loop(own, clients, writers, on_step=kill_switch.on_step).tick()
    errors = [error for cycle in turn.cycles for error in cycle.errors]
    return {
        "why_not": turn.skip_reason,
        "cycles": len(turn.cycles),
        "errors": errors,
        "steps": kill_switch.steps,
    }


async def _execute(stores: Stores, clients: IntegrationClients) -> dict[str, Any]:
    """Execute the due actions and expire escalations; return the ids by result."""
    executed = await actions.execute_due(stores, clients)
    await escalations.expire_due(stores)
    return {"done": executed.done, "later": executed.later, "refused": executed.refused}


class KillSwitch:
    """Counts the points and kills this process, or waits, at the given one, if any."""

    def __init__(
        self, kill_point: KillPoint | None = None, send: Callable[[Any], None] = lambda _: None
    ) -> None:
        self.steps: list[str] = []
        self._kill_point, self._send = kill_point, send
        self._counts: Counter[str] = Counter()

    def on_step(self, name: str) -> None:
        """Note a step of the loop, and send `begun` at the first one."""
        if not self.steps:
            self._send(("begun", name))
        self.steps.append(name)
        self.reach("step", name)

    def reach(self, kind: PointKind, name: str | None = None) -> None:
        """Count a point; kill the process, or wait, if it is the given one."""
        kill_point = self._kill_point
        if (
            kill_point is None
            or kill_point.kind != kind
            or (kill_point.name is not None and kill_point.name != name)
        ):
            return
        self._counts[kind] += 1
        if self._counts[kind] != kill_point.number:
            return
        if not kill_point.waits:
            kill_this_process()
        self._send(("waiting", name))
        sys.stdin.readline()

    async def reach_around(self, operation: Any, request: Request) -> Any:
        """Make a request to the tables; reach a point before and after it, and one more for a write."""
        kinds: tuple[PointKind, ...] = ("request",) if isinstance(operation, READS) else ("request", "write")
        for kind in kinds:
            self.reach(kind)
        result = await request()
        for kind in kinds:
            self.reach(kind)
        return result


@dataclass
class _WatchedClients(IntegrationClients):
    """Clients that reach a point before and after every effect at an external service."""

    kill_switch: KillSwitch = field(default_factory=KillSwitch)

    async def get_client(self, integration: Integration) -> Any:
        return _WatchedClient(await super().get_client(integration), self.kill_switch)


class _WatchedClient:
    """One client whose `comment`, `move` and `send` reach a point before and after."""

    def __init__(self, client: Any, kill_switch: KillSwitch) -> None:
        self._client, self._kill_switch = client, kill_switch

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        if name not in OUTWARD:
            return method

        async def acting(*arguments: Any) -> Any:
            self._kill_switch.reach("act")
            outcome = await method(*arguments)
            self._kill_switch.reach("act")
            return outcome

        return acting
