"""Trip Cortex as separate processes for the fault tests: APIs, workflows, a sender, and external services.

They share one PostgreSQL. Each worker may die at a kill point (`tripcortex_kill_points.py`), and is replaced
when it is dead. The portal deduplicates nothing: a reference requested twice is sold twice.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Self

from holdfast.core.clock import RunClock
from holdfast_demo.tripcortex import sandbox
from holdfast_demo.tripcortex.sandbox.issuer import IssuerSandbox, build_issuer_app
from holdfast_demo.tripcortex.sandbox.portal import PortalSandbox, build_portal_app
from tests.processes import Process, preload
from tests.system_processes import SystemProcesses, get_write_time
from tripcortex.system import SYSTEM

from .tripcortex_kill_points import CALLS_VARIABLE, HANDLED, KILL_POINTS_VARIABLE

START: Final = datetime(2026, 3, 10, 14, tzinfo=UTC)
# Half of the time that a dead process's lease blocks others.
JUMP_S: Final = 30.0
# A call to the portal that is younger than this may still be in transit: the clock does not jump.
CALL_S: Final = 5.0
# A message that is being handled for less than this: it computes, or waits for the machine.
HANDLED_S: Final = 30.0
# Longer than a whole run: the expiry of tokens is not tested here.
TOKEN_S: Final = 10.0**7
KILLABLE: Final = "tests.systems.tripcortex.faults.tripcortex_kill_points"

preload(
    __name__,
    KILLABLE,
    "tripcortex.api.routes",
    "tripcortex.workers.dependencies",
    "alembic.command",
    "sqlalchemy.dialects.postgresql.psycopg",
    "tests.systems.tripcortex.faults.tripcortex_preload",
)


class Stage(SystemProcesses):
    """The system's processes: entering starts the external services, `add` the rest."""

    def __init__(self, folder: Path, *, apis: int = 2, **variables: str) -> None:
        self.book, self.calls = folder / "fates", folder / "calls"
        super().__init__(
            SYSTEM,
            folder,
            START,
            sandboxes=build_sandboxes,
            jump_s=JUMP_S,
            servers=apis,
            with_postgres="HOLDFAST_SQL" not in variables,
            HOLDFAST_SECRETS="env:",
            **{KILL_POINTS_VARIABLE: str(self.book), CALLS_VARIABLE: str(self.calls)},
            **variables,
        )
        self.book.mkdir()
        self.calls.mkdir()
        self.clock.watch(self.ledgers)
        self.clock.is_held = self._is_call_in_transit

    def __enter__(self) -> Self:
        super().__enter__()
        self.variables = {**sandbox.build_variables(self.urls, ""), **self.variables}
        # It reads the keys of the sandbox.
        self._issuer = IssuerSandbox(clock=self.clock.run, folder=self.ledgers, lifetime_s=TOKEN_S)
        return self

    def get_token(self, employee_id: str) -> str:
        return self._issuer.mint_token(employee_id)

    def get_ledger(self) -> list[dict[str, Any]]:
        """Return the portal's own account of its sales."""
        found: list[dict[str, Any]] = self.get("portal", "/sandbox/ledger")["ledger"]
        return found

    def add(self, name: str) -> Process:
        """Start the worker with this name, "COMPONENT NUMBER"."""
        component, number = name.split()
        address = self.servers[int(number)] if component == "api" else ""
        own = {"TRIPCORTEX_NODE_URL": address} if address else {}
        return self.add_worker(name, component, module=KILLABLE, port_of=address, **own)

    def may_end(self, worker: Process) -> bool:
        """Remove the marks of the worker's open portal calls. It may end only by SIGKILL."""
        for call in self.calls.glob(f"{worker.pid} *"):
            call.unlink()
        return worker.is_killed

    def _is_call_in_transit(self) -> bool:
        """Return whether a call to the portal is open, or a message is being handled: leases are longer than
        both.
        """
        now = time.time_ns()
        limits = (
            (each, HANDLED_S if each.name.endswith(HANDLED) else CALL_S) for each in self.calls.iterdir()
        )
        return any(get_write_time(each) > now - int(limit_s * 1e9) for each, limit_s in limits)


def build_sandboxes(clock: RunClock, ledgers: Path) -> Mapping[str, Any]:
    """Build the apps of the external services; the portal's ledger is the truth about sales."""
    return {
        "portal": build_portal_app(PortalSandbox(clock=clock, folder=ledgers, api_key=sandbox.PORTAL_KEY)),
        "issuer": build_issuer_app(IssuerSandbox(clock=clock, folder=ledgers)),
    }
