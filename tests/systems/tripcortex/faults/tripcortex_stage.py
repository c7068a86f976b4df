"""Trip Cortex as separate processes for the fault tests: APIs, workflows, a sender, and external services.

They share one PostgreSQL. The processes run the command line, forked from one that has everything imported
(`tripcortex_processes.py`). Each may die at a kill point (`tripcortex_kill_points.py`), and is replaced when
it is dead.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import httpx2

from holdfast.core.clock import RunClock
from holdfast.stores.sql.postgres.embedded import find_running_server
from holdfast_demo.tripcortex import sandbox
from holdfast_demo.tripcortex.sandbox.issuer import IssuerSandbox
from tests.faults.system_stage import MovingClock, Process, SystemStage
from tests.postgres import new_folder
from tripcortex.system import SYSTEM

from .tripcortex_kill_points import CALLS_VARIABLE, KILL_POINTS_VARIABLE

START: Final = datetime(2026, 3, 10, 14, tzinfo=UTC)
# Half of the time that a dead process's lease blocks others.
JUMP_S: Final = 30.0
# A call to the portal that is younger than this may still be in transit: the clock does not move.
CALL_S: Final = 5.0
PATIENCE_S: Final = 60.0
# Longer than a whole run: the expiry of tokens is not tested here.
TOKEN_S: Final = 10.0**7


@dataclass(eq=False)
class Worker:
    """A process of Trip Cortex, by its name: "workflow 0", "api 1", "sender 0"."""

    name: str
    has_reported: threading.Event = field(default_factory=threading.Event)
    has_started: threading.Event = field(default_factory=threading.Event)
    has_ended: threading.Event = field(default_factory=threading.Event)
    pid: int = 0
    exit_code: int | None = None
    is_ready: bool = False

    def signal(self, number: int) -> None:
        """Send a signal once the process has started, unless it has ended."""
        if self.has_started.wait(PATIENCE_S) and not self.has_ended.is_set():
            os.kill(self.pid, number)

    def wait_until_ready(self) -> bool:
        """Wait until the process is ready or has ended; return whether it is ready."""
        assert self.has_reported.wait(PATIENCE_S), f"{self.name} does not respond"
        return self.is_ready


class Stage(SystemStage):
    """The system's processes: entering starts the external services, `add` the rest."""

    def __init__(self, folder: Path, *, apis: int = 2, **extra_variables: str) -> None:
        self._folders = ExitStack()
        self._own_sql = extra_variables.pop("HOLDFAST_SQL", "")
        # Not pytest's folder: the server's user needs access.
        self.postgres = self._folders.enter_context(new_folder())
        super().__init__(SYSTEM, folder, START, jump_s=JUMP_S)
        self.ledgers, self.book, self.calls = folder / "ledgers", folder / "fates", folder / "calls"
        self.book.mkdir()
        self.calls.mkdir()
        watched = [self.data / "tables.db-wal", self.data / "queues.db-wal", self.ledgers]
        self.clock = CarefulClock(self.clock_file, START, watched, JUMP_S, self.calls)
        self.ports = [_find_free_port() for _ in range(apis)]
        self.own = extra_variables
        self.workers: list[Worker] = []
        self.deaths: list[str] = []
        self._ids: dict[int, Worker] = {}

    def __enter__(self) -> Stage:
        super().__enter__()
        self.variables["HOLDFAST_SQL"] = self._own_sql or f"postgres:{self.postgres}"
        nursery = self.start_process("nursery", module="tests.systems.tripcortex.faults.tripcortex_processes")
        services = self.start_process(
            "parties",
            str(self.ledgers),
            str(self.clock_file),
            module="tests.systems.tripcortex.faults.tripcortex_services",
        )
        self.services: dict[str, str] = json.loads(self.read_first_line(services))
        self.variables |= {
            **sandbox.build_variables(self.services, ""),
            "HOLDFAST_SECRETS": "env:",
            KILL_POINTS_VARIABLE: str(self.book),
            CALLS_VARIABLE: str(self.calls),
            **self.own,
        }
        self._issuer = IssuerSandbox(clock=RunClock(self.clock_file), folder=self.ledgers, lifetime_s=TOKEN_S)
        self._nursery = nursery
        self._listening = threading.Thread(target=self._listen, args=(nursery,), daemon=True)
        self._listening.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        for worker in self._ids.values():
            worker.signal(signal.SIGKILL)
        assert self._nursery.stdin is not None
        self._nursery.stdin.close()
        self._listening.join(PATIENCE_S)
        self._nursery.stdin = None
        super().__exit__(kind, error, trace)
        server = find_running_server(self.postgres)
        if server is not None:  # no process was left to stop it
            os.kill(server.pid, signal.SIGKILL)
        self._folders.close()

    @property
    def apis(self) -> list[str]:
        return [f"http://127.0.0.1:{port}" for port in self.ports]

    def get_token(self, employee_id: str) -> str:
        return self._issuer.mint_token(employee_id)

    # --- workers --------------------------------------------------------------------------------------------

    def add(self, name: str) -> Worker:
        """Start the worker with this name, "COMPONENT NUMBER"."""
        component, number = name.split()
        serving = ("--port", str(self.ports[int(number)])) if component == "api" else ()
        own = {"TRIPCORTEX_NODE_URL": self.apis[int(number)]} if component == "api" else {}
        id = len(self._ids)
        worker = self._ids[id] = Worker(name)
        self.workers.append(worker)
        self._send_order(
            id=id,
            arguments=["run", SYSTEM.name, "--component", component, *serving],
            variables={**self.variables, **own},
            log=str(self.logs / f"{id + 10:03}-{name.replace(' ', '-')}.log"),
        )
        return worker

    def kill(self, worker: Worker) -> None:
        """Kill the worker, wait for its end and remove it."""
        self.deaths.append(f"{worker.name} killed")
        worker.signal(signal.SIGKILL)
        assert worker.has_ended.wait(PATIENCE_S)
        self._bury(worker)

    def take_dead(self) -> list[str]:
        """Remove the workers that died at a kill point and return their names; any other end is an error."""
        dead = [each for each in self.workers if each.has_ended.is_set()]
        for each in dead:
            self._bury(each)
            self.deaths.append(f"{each.name} died at a kill point")
        return [each.name for each in dead]

    def _bury(self, worker: Worker) -> None:
        """Remove a worker that SIGKILL ended, and the marks of its open portal calls."""
        self.workers.remove(worker)
        assert worker.exit_code == -signal.SIGKILL, (
            f"{worker.name} ended: {worker.exit_code} {self.read_logs()[-20:]}"
        )
        for call in self.calls.glob(f"{worker.pid} *"):
            call.unlink()

    def stop_workers(self) -> None:
        """Stop all workers in order; each finishes its current work."""
        for worker in self.workers:
            worker.wait_until_ready()
            worker.signal(signal.SIGTERM)
        for worker in self.workers:
            assert worker.has_ended.wait(PATIENCE_S), f"{worker.name} does not end"
            assert worker.exit_code == 0, (worker.name, worker.exit_code, self.read_logs()[-20:])
        self.workers.clear()

    def _send_order(self, **order: Any) -> None:
        assert self._nursery.stdin is not None
        self._nursery.stdin.write(json.dumps(order) + "\n")
        self._nursery.stdin.flush()

    def _listen(self, nursery: Process) -> None:
        """Read the forker's reports in a thread and update the workers."""
        assert nursery.stdout is not None
        for line in nursery.stdout:
            report = json.loads(line)
            worker = self._ids[report["id"]]
            if "pid" in report:
                worker.pid = report["pid"]
                worker.has_started.set()
            elif "said" in report:
                worker.is_ready = True
                worker.has_reported.set()
            else:
                worker.exit_code = report["ended"]
                worker.has_ended.set()
                worker.has_reported.set()

    # --- external services ----------------------------------------------------------------------------------

    def post(self, service: str, path: str, body: Any) -> None:
        """Post to a control endpoint of a sandbox."""
        httpx2.post(self.services[service] + path, json=body, timeout=PATIENCE_S).raise_for_status()

    def get_ledger(self) -> list[dict[str, Any]]:
        """Return the portal's own account of its sales."""
        answer = httpx2.get(f"{self.services['portal']}/sandbox/ledger", timeout=PATIENCE_S)
        found: list[dict[str, Any]] = answer.raise_for_status().json()["ledger"]
        return found


class CarefulClock(MovingClock):
    """Clock that does not move while a call to the portal is in transit: a lease is longer than that."""

    def __init__(self, file: Path, start: datetime, watched: list[Path], jump_s: float, calls: Path) -> None:
        super().__init__(file, start, watched, jump_s)
        self._calls = calls

    def _get_last_write(self) -> int:
        """Return now while a call to the portal is in transit, which keeps the clock from moving."""
        young = time.time_ns() - int(CALL_S * 1e9)
        newest = max((_get_start_time(call) for call in self._calls.iterdir()), default=0)
        return time.time_ns() if newest > young else super()._get_last_write()


def _get_start_time(call: Path) -> int:
    """Return when the call began, or 0 if it has ended."""
    try:
        return call.stat().st_mtime_ns
    except FileNotFoundError:  # the call has ended
        return 0


def _find_free_port() -> int:
    """Return a free port, which a process and its replacement both listen on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port
