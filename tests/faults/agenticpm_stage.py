"""AgenticPM as processes: the parties that nobody kills, loops and executors that are; for `test_agenticpm_killed.py`.

All of them go by one clock in a file, which only the test moves: what a run finds depends on what is played, and not on how
fast the machine is. Processes are forked from one that has everything imported, so that hundreds of them take no time.
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
from tests.faults import agenticpm_process as process
from tests.faults.agenticpm_process import Death, Role

ROOT: Final = Path(__file__).parents[2]
# Five past eight on a Wednesday in Sydney, where the agent works from eight to six.
START: Final = datetime(2026, 2, 3, 21, 5, tzinfo=UTC)
# So few that what the agent may do in a day is never too much.
ROUNDS_A_DAY: Final = 2
ROUND: Final = timedelta(hours=4)
# Everything that is asked of a process is done in this time, or it never will be.
PATIENCE_S: Final = 60.0

_FORKS: Final = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["__main__", process.__name__])


class Stage:
    """A folder with the data, the clock and the ledgers; and the parties, while it is entered."""

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
        self.doors: dict[str, httpx2.Client] = {}
        self._running: list[Worker] = []

    def __enter__(self) -> Stage:
        command = [sys.executable, "-m", "tests.faults.agenticpm_parties"]
        places = [str(self._folder / "ledgers"), self.variables["HOLDFAST_RUN_CLOCK"]]
        pipe: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self._parties = subprocess.Popen([*command, *places], cwd=ROOT, **pipe)
        assert self._parties.stdout is not None
        urls = json.loads(self._parties.stdout.readline())
        for name, url in urls.items():
            self.variables[f"AGENTICPM_{name.upper()}_URL"] = url
            self.doors[name] = httpx2.Client(base_url=url, timeout=PATIENCE_S)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        for worker in self._running:
            worker.kill()
        for door in self.doors.values():
            door.close()
        self._parties.communicate()

    def stores(self) -> Stores:
        return open_stores(SYSTEM, Settings.load(environ=self.variables))

    async def onboarded(self, stores: Stores) -> Project:
        """The tables, the settings and a project whose agent may act."""
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
                # Longer than a run: which minute a comment came in must not decide about a signal days later.
                "thresholds": {"stale_working_days": 60},
            },
        )

    # --- the clock ------------------------------------------------------------------------------------------

    @staticmethod
    def begin_of(number: int) -> datetime:
        """When a round begins: two a day."""
        days, place = divmod(number, ROUNDS_A_DAY)
        return START + timedelta(days=days) + ROUND * place

    def clock_to(self, moment: datetime) -> None:
        """Raises where it is later already: then a round has taken more time than there is."""
        self.clock.advance(moment.timestamp() - self.clock.now())

    # --- the parties ----------------------------------------------------------------------------------------

    def ask(self, party: str, path: str, body: Any) -> None:
        self.doors[party].post(path, json=body).raise_for_status()

    def ledger(self, party: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (
            self.doors[party].get("/sandbox/ledger").raise_for_status().json()["ledger"]
        )
        return found

    def faults(self, *, parties: Sequence[str] = ("jira", "resend"), **faults: Any) -> None:
        """Of those at which something is done, or of others; without any, they are well again."""
        for party in parties:
            self.ask(party, "/sandbox/faults", faults)

    # --- processes ------------------------------------------------------------------------------------------

    def start(self, role: Role, death: Death | None = None) -> Worker:
        worker = Worker(role, self.variables, death)
        self._running.append(worker)
        return worker

    def said(self) -> str:
        """The end of what the processes have written to their log."""
        return self.log.read_text()[-4000:] if self.log.exists() else ""


class Worker:
    """A process that does one turn."""

    def __init__(self, role: Role, variables: dict[str, str], death: Death | None) -> None:
        self._told, end = _FORKS.Pipe(duplex=False)
        self._process: ForkServerProcess = _FORKS.Process(
            target=process.main, args=(role, variables, death, end)
        )
        self._process.start()
        # Else the pipe would not end with the process.
        end.close()
        self.result: dict[str, Any] | None = None

    @property
    def was_killed(self) -> bool:
        return self._process.exitcode == -signal.SIGKILL

    @property
    def is_alive(self) -> bool:
        return self._process.is_alive()

    async def until(self, wanted: str) -> bool:
        """Until it says so, or has ended: whether it has said it."""
        return await asyncio.to_thread(_heard, self, self._told, wanted)

    async def ended(self) -> dict[str, Any] | None:
        """What came of its turn; None where it was killed."""
        await self.until("done")
        await asyncio.to_thread(self._process.join, PATIENCE_S)
        code = self._process.exitcode
        assert code in (0, -signal.SIGKILL), f"a process ended by itself, with {code}"
        assert (self.result is None) == self.was_killed or code == 0
        self._told.close()
        return self.result

    async def kill_after(self, seconds: float) -> None:
        """If it lives so long."""
        await asyncio.to_thread(self._process.join, seconds)
        self.kill()

    def kill(self) -> None:
        if self._process.is_alive():
            self._process.kill()
            self._process.join(PATIENCE_S)

    def go_on(self) -> None:
        assert self._process.pid is not None
        os.kill(self._process.pid, signal.SIGCONT)


def _heard(worker: Worker, told: Connection, wanted: str) -> bool:
    while worker.result is None:
        try:
            assert told.poll(PATIENCE_S), f"a process says nothing, and {wanted} was waited for"
            what, detail = told.recv()
        except EOFError:
            return False
        if what == "done":
            worker.result = detail
        if what == wanted:
            return True
    return False
