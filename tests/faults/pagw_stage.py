"""The gateway as processes: API, pipeline, one PostgreSQL for all of them, the outside parties; for the `test_pagw_….py`.

API and pipeline run by the command line, may be given a moment to die at (`pagw_fate.py`), and are replaced when they are
dead. PostgreSQL, too, is killed, and started again by whoever finds it down.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import httpx2
import psycopg
from psycopg.rows import dict_row

from holdfast.core.clock import RunClock
from holdfast.stores.sql.postgres.embedded import running_server
from pagw.demo.sandbox import build_variables
from pagw.demo.sandbox.issuer import IssuerSandbox
from pagw.system import PIPELINE, SYSTEM
from tests.postgres import new_folder

from .pagw_fate import VARIABLE
from .staged import Process, Staged

START: Final = datetime(2026, 11, 10, 10, tzinfo=UTC)
# Longer than elsewhere: the lease of an intent at a payer is a minute.
JUMP_S: Final = 5.0
API_COMPONENTS: Final = ("api", "payer-callbacks")
PIPELINE_COMPONENTS: Final = tuple(each.name for each in SYSTEM.components if each.process == PIPELINE)
PATIENCE_S: Final = 60.0


class Stage(Staged):
    """Enter it, and the parties are there; `add_api` and `add_pipeline` start the rest."""

    def __init__(self, folder: Path, *, apis: int = 1, **own: str) -> None:
        # Not pytest's folder: the server's user must pass through.
        self._folders = ExitStack()
        self.postgres = self._folders.enter_context(new_folder())
        super().__init__(SYSTEM, folder, START, jump_s=JUMP_S)
        self.clock.watch(self.postgres / "server" / "pg_wal")
        self.ledgers = folder / "ledgers"
        self.ports = [_free_port() for _ in range(apis)]
        self.own = own
        self.workers: dict[Process, str] = {}
        self.fated: set[Process] = set()
        self.ready: set[Process] = set()
        self.deaths: list[str] = []
        self._turn = threading.RLock()

    def __enter__(self) -> Stage:
        super().__enter__()
        self.variables["HOLDFAST_SQL"] = f"postgres:{self.postgres}"
        parties = self.started(
            "parties", str(self.ledgers), str(self.clock_file), module="tests.faults.pagw_parties"
        )
        self.parties: dict[str, str] = json.loads(self.first_line(parties))
        self.variables |= {
            **build_variables(self.parties, self.apis[0]),
            "PAGW_PAYER_URL": self.parties["payer"],
            "PAGW_RATE_LIMIT": "1000000",
            "PAGW_ANSWER_WAIT_S": "2",
            **self.own,
        }
        self._issuer = IssuerSandbox(
            clock=RunClock(self.clock_file), folder=self.ledgers, lifetime_s=365 * 86400.0
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        super().__exit__(kind, error, trace)
        server = running_server(self.postgres)
        if server is not None:  # nobody was left to stop it
            os.kill(server.pid, signal.SIGKILL)
        self._folders.close()

    @property
    def apis(self) -> list[str]:
        return [f"http://127.0.0.1:{port}" for port in self.ports]

    def token(self, tenant: str) -> str:
        return self._issuer.mint_token(tenant)

    # --- the crew -------------------------------------------------------------------------------------------

    def add_api(self, number: int = 0, fate: str = "") -> Process:
        return self._joined(f"api {number}", fate, API_COMPONENTS, "--port", str(self.ports[number]))

    def add_pipeline(self, number: int = 0, fate: str = "") -> Process:
        return self._joined(f"pipeline {number}", fate, PIPELINE_COMPONENTS)

    def _joined(self, name: str, fate: str, components: tuple[str, ...], *more: str) -> Process:
        chosen = [word for each in components for word in ("--component", each)]
        process = self.started(
            name.replace(" ", "-"),
            *("run", "pagw", *chosen, *more),
            module="tests.faults.pagw_fate",
            **{VARIABLE: fate},
        )
        with self._turn:
            self.workers[process] = name
            if fate:
                self.fated.add(process)
        return process

    def kill(self, process: Process) -> str:
        """Its name, by which another can take its place."""
        process.kill()
        return self._buried(process, "killed")

    def fallen(self) -> list[str]:
        """Those that have met their fate; a process that has ended in any other way should not have."""
        dead = [each for each in list(self.workers) if each.poll() is not None]
        return [self._buried(each, "met its fate") for each in dead]

    def _buried(self, process: Process, how: str) -> str:
        """One that found PostgreSQL down while it began may give up; whoever starts it again would, too."""
        said, _ = process.communicate()
        with self._turn:
            name = self.workers.pop(process)
        is_killed = process.returncode == -signal.SIGKILL
        assert is_killed or (process not in self.ready and not said), f"{name} ended: {self.said()[-20:]}"
        assert not any(line.startswith("Traceback") for line in self.said()), self.said()[-20:]
        self.deaths.append(f"{name} {how if is_killed else 'did not begin'}")
        return name

    def first_line(self, process: Process) -> str:
        self.ready.add(process)
        return super().first_line(process)

    def stop_crew(self) -> None:
        """In good order: each brings to its end what it has in hand. One that was just begun is waited for."""
        for process in self.workers:
            if process not in self.ready and process.stdout is not None:
                process.stdout.readline()
            process.terminate()
        for process in list(self.workers):
            process.communicate(timeout=PATIENCE_S)
            is_fated = process in self.fated and process.returncode == -signal.SIGKILL
            assert process.returncode == 0 or is_fated, self.said()[-20:]
        self.workers.clear()

    def kill_postgres(self) -> bool:
        server = running_server(self.postgres)
        if server is None:  # somebody is about to start it
            return False
        os.kill(server.pid, signal.SIGKILL)
        self.deaths.append("PostgreSQL killed")
        return True

    # --- from outside ---------------------------------------------------------------------------------------

    def rows(self, text: str) -> list[dict[str, Any]]:
        """What the database says; somebody of ours must be keeping it up."""
        server = running_server(self.postgres)
        assert server is not None, "PostgreSQL is down, and nobody has started it"
        place = {"host": server.socket_folder, "port": server.port, "user": "postgres", "dbname": "holdfast"}
        with closing(psycopg.connect(**place, row_factory=dict_row)) as connection:  # type: ignore[arg-type]
            return [dict(row) for row in connection.execute(text.encode()).fetchall()]

    def tell(self, party: str, path: str, body: Any) -> None:
        httpx2.post(self.parties[party] + path, json=body, timeout=PATIENCE_S).raise_for_status()

    def ask(self, party: str, path: str) -> Any:
        return httpx2.get(self.parties[party] + path, timeout=PATIENCE_S).raise_for_status().json()


def _free_port() -> int:
    """Taken for a moment, so that it is known before somebody listens there, and again after that one died."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port
