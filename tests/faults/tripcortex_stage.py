"""Trip Cortex as processes: APIs, workflows, a sender, one PostgreSQL for all of them, the outside parties; for the
`test_tripcortex_….py`.

Its own run by the command line, forked from one that has everything imported (`tripcortex_nursery.py`). They may die at a
moment that is in the book of fates (`tripcortex_fate.py`), and are replaced when they are dead.
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
from holdfast.stores.sql.postgres.embedded import running_server
from tests.postgres import new_folder
from tripcortex.demo import sandbox
from tripcortex.demo.sandbox.issuer import IssuerSandbox
from tripcortex.system import SYSTEM

from .staged import MovedClock, Process, Staged
from .tripcortex_fate import BOOK, CALLS

START: Final = datetime(2026, 3, 10, 14, tzinfo=UTC)
# Half of what a dead process keeps from others.
JUMP_S: Final = 30.0
# A call of the portal that is younger than this may still be on its way to it: time stands still for it.
CALL_S: Final = 5.0
PATIENCE_S: Final = 60.0
# Longer than a whole run: employees' tokens are not what is tried here.
TOKEN_S: Final = 10.0**7


@dataclass(eq=False)
class Worker:
    """A process of ours, by its name: "workflow 0", "api 1", "sender 0"."""

    name: str
    said: threading.Event = field(default_factory=threading.Event)
    is_begun: threading.Event = field(default_factory=threading.Event)
    is_over: threading.Event = field(default_factory=threading.Event)
    pid: int = 0
    ended: int | None = None
    has_said: bool = False

    def signal(self, number: int) -> None:
        if self.is_begun.wait(PATIENCE_S) and not self.is_over.is_set():
            os.kill(self.pid, number)

    def until_ready(self) -> bool:
        """Whether it is ready, or has ended before that."""
        assert self.said.wait(PATIENCE_S), f"{self.name} says nothing"
        return self.has_said


class Stage(Staged):
    """Enter it, and the parties are there; `add` starts the rest."""

    def __init__(self, folder: Path, *, apis: int = 2, **own: str) -> None:
        self._folders = ExitStack()
        self._own_sql = own.pop("HOLDFAST_SQL", "")
        # Not pytest's folder: the server's user must pass through.
        self.postgres = self._folders.enter_context(new_folder())
        super().__init__(SYSTEM, folder, START, jump_s=JUMP_S)
        self.ledgers, self.book, self.calls = folder / "ledgers", folder / "fates", folder / "calls"
        self.book.mkdir()
        self.calls.mkdir()
        watched = [self.data / "tables.db-wal", self.data / "queues.db-wal", self.ledgers]
        self.clock = CarefulClock(self.clock_file, START, watched, JUMP_S, self.calls)
        self.ports = [_free_port() for _ in range(apis)]
        self.own = own
        self.workers: list[Worker] = []
        self.deaths: list[str] = []
        self._ids: dict[int, Worker] = {}

    def __enter__(self) -> Stage:
        super().__enter__()
        self.variables["HOLDFAST_SQL"] = self._own_sql or f"postgres:{self.postgres}"
        nursery = self.started("nursery", module="tests.faults.tripcortex_nursery")
        parties = self.started(
            "parties", str(self.ledgers), str(self.clock_file), module="tests.faults.tripcortex_parties"
        )
        self.parties: dict[str, str] = json.loads(self.first_line(parties))
        self.variables |= {
            **sandbox.build_variables(self.parties, ""),
            "HOLDFAST_SECRETS": "env:",
            BOOK: str(self.book),
            CALLS: str(self.calls),
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
        server = running_server(self.postgres)
        if server is not None:  # nobody was left to stop it
            os.kill(server.pid, signal.SIGKILL)
        self._folders.close()

    @property
    def apis(self) -> list[str]:
        return [f"http://127.0.0.1:{port}" for port in self.ports]

    def token(self, employee_id: str) -> str:
        return self._issuer.mint_token(employee_id)

    # --- the crew -------------------------------------------------------------------------------------------

    def add(self, name: str) -> Worker:
        component, number = name.split()
        serving = ("--port", str(self.ports[int(number)])) if component == "api" else ()
        own = {"TRIPCORTEX_NODE_URL": self.apis[int(number)]} if component == "api" else {}
        id = len(self._ids)
        worker = self._ids[id] = Worker(name)
        self.workers.append(worker)
        self._order(
            id=id,
            arguments=["run", SYSTEM.name, "--component", component, *serving],
            variables={**self.variables, **own},
            log=str(self.logs / f"{id + 10:03}-{name.replace(' ', '-')}.log"),
        )
        return worker

    def kill(self, worker: Worker) -> None:
        self.deaths.append(f"{worker.name} killed")
        worker.signal(signal.SIGKILL)
        assert worker.is_over.wait(PATIENCE_S)
        self._buried(worker)

    def fallen(self) -> list[str]:
        """The names of those that have met their fate since; one that has ended in any other way should not have."""
        dead = [each for each in self.workers if each.is_over.is_set()]
        for each in dead:
            self._buried(each)
            self.deaths.append(f"{each.name} met its fate")
        return [each.name for each in dead]

    def _buried(self, worker: Worker) -> None:
        self.workers.remove(worker)
        assert worker.ended == -signal.SIGKILL, f"{worker.name} ended: {worker.ended} {self.said()[-20:]}"
        for call in self.calls.glob(f"{worker.pid} *"):
            call.unlink()

    def stop_crew(self) -> None:
        """In good order: each brings to its end what it has in hand. One that was just begun is waited for."""
        for worker in self.workers:
            worker.until_ready()
            worker.signal(signal.SIGTERM)
        for worker in self.workers:
            assert worker.is_over.wait(PATIENCE_S), f"{worker.name} does not end"
            assert worker.ended == 0, (worker.name, worker.ended, self.said()[-20:])
        self.workers.clear()

    def _order(self, **told: Any) -> None:
        assert self._nursery.stdin is not None
        self._nursery.stdin.write(json.dumps(told) + "\n")
        self._nursery.stdin.flush()

    def _listen(self, nursery: Process) -> None:
        assert nursery.stdout is not None
        for line in nursery.stdout:
            told = json.loads(line)
            worker = self._ids[told["id"]]
            if "pid" in told:
                worker.pid = told["pid"]
                worker.is_begun.set()
            elif "said" in told:
                worker.has_said = True
                worker.said.set()
            else:
                worker.ended = told["ended"]
                worker.is_over.set()
                worker.said.set()

    # --- from outside ---------------------------------------------------------------------------------------

    def tell(self, party: str, path: str, body: Any) -> None:
        httpx2.post(self.parties[party] + path, json=body, timeout=PATIENCE_S).raise_for_status()

    def ledger(self) -> list[dict[str, Any]]:
        """What the portal did, by its own account."""
        answer = httpx2.get(f"{self.parties['portal']}/sandbox/ledger", timeout=PATIENCE_S)
        found: list[dict[str, Any]] = answer.raise_for_status().json()["ledger"]
        return found


class CarefulClock(MovedClock):
    """It is not moved while somebody has just asked the portal to sell: a lease is longer than the way to the portal."""

    def __init__(self, file: Path, start: datetime, watched: list[Path], jump_s: float, calls: Path) -> None:
        super().__init__(file, start, watched, jump_s)
        self._calls = calls

    def _newest(self) -> int:
        young = time.time_ns() - int(CALL_S * 1e9)
        newest = max((_begun_at(call) for call in self._calls.iterdir()), default=0)
        return time.time_ns() if newest > young else super()._newest()


def _begun_at(call: Path) -> int:
    try:
        return call.stat().st_mtime_ns
    except FileNotFoundError:  # answered meanwhile
        return 0


def _free_port() -> int:
    """Taken for a moment, so that it is known before somebody listens there, and again after that one died."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port
