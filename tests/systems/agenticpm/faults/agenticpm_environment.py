"""Processes for `test_agenticpm_killed.py`: sandboxes that are never killed; loops and executors that are.

All of them use one clock in a file, which only the test moves, so results do not depend on the speed of the
machine. Processes are forked from one that has imported everything, so hundreds of them start quickly.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import httpx2

from agenticpm.model import agent_settings, projects
from agenticpm.model.entities import Project
from agenticpm.system import SYSTEM
from holdfast import Stores, open_stores
from holdfast.config.settings import Settings
from holdfast.core.clock import RunClock
from holdfast.runtime.system_provisioner import provision
from tests.systems.agenticpm.faults import agenticpm_process as process
from tests.systems.agenticpm.faults.agenticpm_process import KillPoint, Role

ROOT: Final = Path(__file__).parents[4]
# 08:05 on a Wednesday in Sydney, where the agent works from 08:00 to 18:00.
START: Final = datetime(2026, 2, 3, 21, 5, tzinfo=UTC)
# Few enough to stay below the agent's daily action limit.
ROUNDS_A_DAY: Final = 2
ROUND: Final = timedelta(hours=4)
# Longest time that a process may take for anything.
TIMEOUT_S: Final = 60.0

_FORKSERVER: Final = multiprocessing.get_context("forkserver")
_FORKSERVER.set_forkserver_preload(["__main__", process.__name__])


class Environment:
    """A folder with the data, the clock and the ledgers; inside the context, the sandboxes run."""

    def __init__(self, folder: Path) -> None:
        data, self.log = folder / "data", folder / "processes.log"
        data.mkdir(parents=True)
        self._folder, clock_file = folder, folder / "clock"
        self.clock = RunClock(clock_file, start=START.timestamp())
        self.variables = {
            "HOLDFAST_TABLES": f"sqlite:{data / 'tables.db'}",
            "HOLDFAST_QUEUES": f"sqlite:{data / 'queues.db'}",
            "HOLDFAST_OBJECTS": f"file:{data / 'objects'}",
            "HOLDFAST_KEYS": f"file:{folder / 'keys.json'}",
            "HOLDFAST_ENVIRONMENT": "test",
            "HOLDFAST_RUN_CLOCK": str(clock_file),
            "HOLDFAST_REASONER": "rules",
            "AGENTICPM_TEST_LOG": str(self.log),
        }
        self.clients: dict[str, httpx2.Client] = {}
        self._running: list[Worker] = []

    def __enter__(self) -> Environment:
        command = [sys.executable, "-m", "tests.systems.agenticpm.faults.agenticpm_sandboxes"]
        places = [str(self._folder / "ledgers"), self.variables["HOLDFAST_RUN_CLOCK"]]
        pipe: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._sandboxes = subprocess.Popen([*command, *places], cwd=ROOT, **pipe)
        assert self._sandboxes.stdout is not None
        urls = json.loads(self._sandboxes.stdout.readline())
        for name, url in urls.items():
            self.variables[f"AGENTICPM_{name.upper()}_URL"] = url
            self.clients[name] = httpx2.Client(base_url=url, timeout=TIMEOUT_S)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        for worker in self._running:
            worker.kill()
        for client in self.clients.values():
            client.close()
        self._sandboxes.communicate()

    def open_stores(self) -> Stores:
        """Open AgenticPM's stores in the folder, in this process."""
        return open_stores(SYSTEM, Settings.load(environ=self.variables))

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

    def post(self, service: str, path: str, body: Any) -> None:
        """Post a request to the sandbox of a service. Raise if it is refused."""
        self.clients[service].post(path, json=body).raise_for_status()

    def read_ledger(self, service: str) -> list[dict[str, Any]]:
        """Return every effect that the sandbox of a service recorded."""
        found: list[dict[str, Any]] = (
            self.clients[service].get("/sandbox/ledger").raise_for_status().json()["ledger"]
        )
        return found

    def set_faults(self, *, services: Sequence[str] = ("jira", "resend"), **faults: Any) -> None:
        """Set the faults of these services; without faults, they work again."""
        for service in services:
            self.post(service, "/sandbox/faults", faults)

    # --- processes ------------------------------------------------------------------------------------------

    def start(self, role: Role, kill_point: KillPoint | None = None) -> Worker:
        """Start a process that runs one turn in a role, and is killed at the point if one is given."""
        worker = Worker(role, self.variables, kill_point)
        self._running.append(worker)
        return worker

    def read_log(self) -> str:
        """Return the last 4000 characters of the processes' log; empty if there is none."""
        return self.log.read_text()[-4000:] if self.log.exists() else ""


class Worker:
    """A process that runs one turn of the loop, the executor or the daily work."""

    def __init__(self, role: Role, variables: dict[str, str], kill_point: KillPoint | None) -> None:
        self._connection, end = _FORKSERVER.Pipe(duplex=False)
        self._process: ForkServerProcess = _FORKSERVER.Process(
            target=process.main, args=(role, variables, kill_point, end)
        )
        self._process.start()
        # Otherwise the pipe would stay open when the process ends.
        end.close()
        self.result: dict[str, Any] | None = None

    @property
    def was_killed(self) -> bool:
        return self._process.exitcode == -signal.SIGKILL

    @property
    def is_alive(self) -> bool:
        return self._process.is_alive()

    async def wait_for(self, wanted: str) -> bool:
        """Wait until the process sends this message or ends. Return whether it was sent.

        The messages are `begun`, `stopped` and `done`.
        """
        return await asyncio.to_thread(_wait_for_message, self, self._connection, wanted)

    async def wait_until_ended(self) -> dict[str, Any] | None:
        """Return the result of the turn, or None if the process was killed."""
        await self.wait_for("done")
        await asyncio.to_thread(self._process.join, TIMEOUT_S)
        code = self._process.exitcode
        assert code in (0, -signal.SIGKILL), f"a process exited with {code}"
        assert (self.result is None) == self.was_killed or code == 0
        self._connection.close()
        return self.result

    async def kill_after(self, seconds: float) -> None:
        """Kill the process after this time, if it is still running."""
        await asyncio.to_thread(self._process.join, seconds)
        self.kill()

    def kill(self) -> None:
        if self._process.is_alive():
            self._process.kill()
            self._process.join(TIMEOUT_S)

    def resume(self) -> None:
        """Resume the process after it stopped itself."""
        assert self._process.pid is not None
        os.kill(self._process.pid, signal.SIGCONT)


def _wait_for_message(worker: Worker, connection: Connection, wanted: str) -> bool:
    """Receive messages until the wanted one, and keep the result of `done`. Return whether it was sent."""
    while worker.result is None:
        try:
            assert connection.poll(TIMEOUT_S), f"a process sent nothing while the test waited for {wanted!r}"
            what, detail = connection.recv()
        except EOFError:
            return False
        if what == "done":
            worker.result = detail
        if what == wanted:
            return True
    return False
