"""Processes for `test_agenticpm_killed.py`: sandboxes that are never killed; loops and executors that are.

All of them use one clock in a file, which only the test moves, so results do not depend on the speed of the
machine.
"""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Self

from agenticpm.model import agent_settings, projects
from agenticpm.model.entities import Project
from agenticpm.system import SYSTEM
from holdfast import Stores, provision
from holdfast.core.clock import RunClock
from holdfast_demo.agenticpm.sandbox.jira import JiraSandbox, build_jira_app
from holdfast_demo.agenticpm.sandbox.outlook import OutlookSandbox, build_outlook_app
from holdfast_demo.agenticpm.sandbox.resend import ResendSandbox, build_resend_app
from tests.faults.stopped_processes import stop_outside_writes
from tests.processes import Process, preload
from tests.system_processes import SystemProcesses
from tests.systems.agenticpm.faults.agenticpm_process import KillPoint, Role

# 08:05 on a Wednesday in Sydney, where the agent works from 08:00 to 18:00.
START: Final = datetime(2026, 2, 3, 21, 5, tzinfo=UTC)
# Few enough to stay below the agent's daily action limit.
ROUNDS_A_DAY: Final = 2
ROUND: Final = timedelta(hours=4)
TURN: Final = "tests.systems.agenticpm.faults.agenticpm_process"

preload(__name__, TURN)


class Environment(SystemProcesses):
    """A folder with the data, the clock and the ledgers; inside the context, the sandboxes run."""

    def __init__(self, folder: Path) -> None:
        super().__init__(SYSTEM, folder, START, sandboxes=build_sandboxes, HOLDFAST_REASONER="rules")

    def __enter__(self) -> Self:
        super().__enter__()
        self.variables |= {f"AGENTICPM_{name.upper()}_URL": url for name, url in self.urls.items()}
        return self

    async def onboard(self, stores: Stores) -> Project:
        """Create the tables, the settings and a project whose agent may act."""
        await provision(stores, SYSTEM)
        await agent_settings.seed(stores)
        await agent_settings.put(stores, "digest_recipients", "sponsor@example.com", by="test")
        return await projects.create(
            stores,
            name="Member Centre Upgrade",
            source="jira",
            source_project_key="MCU",
            autonomy_level="tactical",
            config={
                "stakeholders": ["sponsor@example.com"],
                "mail": True,
                # Longer than a run: the minute of a comment must not decide about a signal days later.
                "thresholds": {"stale_working_days": 60},
            },
        )

    # --- the clock ------------------------------------------------------------------------------------------

    @staticmethod
    def get_round_start(number: int) -> datetime:
        """Return the start of the round with this number. There are two rounds a day."""
        days, place = divmod(number, ROUNDS_A_DAY)
        return START + timedelta(days=days) + ROUND * place

    def advance_clock_to(self, moment: datetime) -> None:
        """Advance the clock to a time.

        It raises if the clock is later already: then a round took too long.
        """
        self.clock.advance(moment.timestamp() - self.clock.now())

    # --- the sandboxes --------------------------------------------------------------------------------------

    def read_ledger(self, service: str) -> list[dict[str, Any]]:
        """Return every effect that the sandbox of a service recorded."""
        found: list[dict[str, Any]] = self.get(service, "/sandbox/ledger")["ledger"]
        return found

    def set_faults(self, *, services: Sequence[str] = ("jira", "resend"), **faults: Any) -> None:
        """Set the faults of these services; without faults, they work again."""
        for service in services:
            self.post(service, "/sandbox/faults", faults)

    # --- processes ------------------------------------------------------------------------------------------

    def start_turn(self, role: Role, kill_point: KillPoint | None = None) -> Worker:
        """Start a process that runs one turn in a role, and is killed at the point if one is given."""
        return Worker(self.start(role, TURN, role, kill_point))

    def read_log(self) -> str:
        """Return the last lines of the processes' logs."""
        return "\n".join(self.read_logs()[-50:])


class Worker:
    """A process that runs one turn of the loop, the executor or the daily work."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self.result: dict[str, Any] | None = None

    @property
    def is_alive(self) -> bool:
        return self._process.is_alive

    async def wait_for(self, wanted: str) -> bool:
        """Wait until the process sends this message or ends. Return whether it was sent.

        The messages are `begun`, `waiting` and `done`.
        """
        return await asyncio.to_thread(self._wait_for, wanted)

    def _wait_for(self, wanted: str) -> bool:
        """Read messages until the wanted one, and keep the result of `done`. Return whether it was sent."""
        while self.result is None and (line := self._process.stdout.readline()):
            what, detail = json.loads(line)
            if what == "done":
                self.result = detail
            if what == wanted:
                return True
        return False

    async def wait_until_ended(self) -> dict[str, Any] | None:
        """Return the result of the turn, or None if the process was killed."""
        await self.wait_for("done")
        code = await asyncio.to_thread(self._process.wait)
        assert code in (0, -signal.SIGKILL), f"a process exited with {code}"
        assert (self.result is None) == self._process.is_killed or code == 0
        return self.result

    async def kill_after(self, seconds: float) -> None:
        """Kill the process after this time, if it is still running."""
        await asyncio.sleep(seconds)
        self.kill()

    def kill(self) -> None:
        self._process.kill()

    def stop(self, folder: Path) -> None:
        """Stop the process, which waits, and leave the stores in the folder to others."""
        stop_outside_writes(self._process.pid, folder)

    def resume(self) -> None:
        """Resume the process after a stop, and end its wait."""
        self._process.send_signal(signal.SIGCONT)
        self._process.send_line("")


def build_sandboxes(clock: RunClock, ledgers: Path) -> Mapping[str, Any]:
    """Build the apps of the external services; the ledgers record every effect."""
    return {
        "jira": build_jira_app(JiraSandbox(clock=clock, folder=ledgers)),
        "outlook": build_outlook_app(OutlookSandbox(clock=clock)),
        "resend": build_resend_app(ResendSandbox(clock=clock, folder=ledgers)),
    }
