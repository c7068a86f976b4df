"""Harness: the gateway's API, pipeline, PostgreSQL and external services as processes.

API and pipeline run by the command line, may get a crash point (`pagw_crash_points.py`), and are replaced
when they are dead. PostgreSQL is killed too, and restarted by the first process that finds it down.
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
from holdfast.stores.sql.postgres.embedded import find_running_server
from holdfast_demo.pagw.sandbox import build_variables
from holdfast_demo.pagw.sandbox.issuer import IssuerSandbox
from pagw.system import SYSTEM
from pagw.workers.stages.base_stage import PROCESS
from tests.faults.system_stage import Process, SystemStage
from tests.postgres import new_folder

from .pagw_crash_points import VARIABLE

START: Final = datetime(2026, 11, 10, 10, tzinfo=UTC)
# Longer than in other tests: the lease of a payer call is a minute.
JUMP_S: Final = 5.0
API_COMPONENTS: Final = ("api", "payer-callbacks")
PIPELINE_COMPONENTS: Final = tuple(each.name for each in SYSTEM.components if each.process == PROCESS)
PATIENCE_S: Final = 60.0


class PagwProcesses(SystemStage):
    """Processes of one run. Entering starts the external services; `add_api` and `add_pipeline` start the
    rest.
    """

    def __init__(self, folder: Path, *, apis: int = 1, **extra_variables: str) -> None:
        # Not pytest's folder: the server's user needs access.
        self._folders = ExitStack()
        self.postgres = self._folders.enter_context(new_folder())
        super().__init__(SYSTEM, folder, START, jump_s=JUMP_S)
        self.clock.watch(self.postgres / "server" / "pg_wal")
        self.ledgers = folder / "ledgers"
        self.ports = [_find_free_port() for _ in range(apis)]
        self.extra_variables = extra_variables
        self.workers: dict[Process, str] = {}
        self.crashing: set[Process] = set()
        self.ready: set[Process] = set()
        self.deaths: list[str] = []
        self._turn = threading.RLock()

    def __enter__(self) -> PagwProcesses:
        super().__enter__()
        self.variables["HOLDFAST_SQL"] = f"postgres:{self.postgres}"
        parties = self.start_process(
            "parties",
            str(self.ledgers),
            str(self.clock_file),
            module="tests.systems.pagw.faults.pagw_external_services",
        )
        self.service_urls: dict[str, str] = json.loads(self.read_first_line(parties))
        self.variables |= {
            **build_variables(self.service_urls, self.apis[0]),
            "PAGW_PAYER_URL": self.service_urls["payer"],
            "PAGW_RATE_LIMIT": "1000000",
            "PAGW_ANSWER_WAIT_S": "2",
            **self.extra_variables,
        }
        self._issuer = IssuerSandbox(
            clock=RunClock(self.clock_file), folder=self.ledgers, lifetime_s=365 * 86400.0
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        super().__exit__(kind, error, trace)
        server = find_running_server(self.postgres)
        if server is not None:  # no process was left to stop it
            os.kill(server.pid, signal.SIGKILL)
        self._folders.close()

    @property
    def apis(self) -> list[str]:
        """The addresses of the API processes."""
        return [f"http://127.0.0.1:{port}" for port in self.ports]

    def mint_token(self, tenant: str) -> str:
        """Return a token of the tenant's client, valid for the whole run."""
        return self._issuer.mint_token(tenant)

    # --- workers --------------------------------------------------------------------------------------------

    def add_api(self, number: int = 0, crash_point: str = "") -> Process:
        """Start the API process `number`, without waiting until it is ready."""
        return self._start_worker(
            f"api {number}", crash_point, API_COMPONENTS, "--port", str(self.ports[number])
        )

    def add_pipeline(self, number: int = 0, crash_point: str = "") -> Process:
        """Start the pipeline process `number`, without waiting until it is ready."""
        return self._start_worker(f"pipeline {number}", crash_point, PIPELINE_COMPONENTS)

    def _start_worker(
        self, name: str, crash_point: str, components: tuple[str, ...], *arguments: str
    ) -> Process:
        """Start `holdfast run pagw` with these components and a crash point; empty for none."""
        chosen = [word for each in components for word in ("--component", each)]
        process = self.start_process(
            name.replace(" ", "-"),
            *("run", "pagw", *chosen, *arguments),
            module="tests.systems.pagw.faults.pagw_crash_points",
            **{VARIABLE: crash_point},
        )
        with self._turn:
            self.workers[process] = name
            if crash_point:
                self.crashing.add(process)
        return process

    def kill(self, process: Process) -> str:
        """Kill the process and return its name, for its replacement."""
        process.kill()
        return self._record_death(process, "killed")

    def collect_crashed(self) -> list[str]:
        """Return the names of processes that reached their crash point. Any other end fails the test."""
        dead = [each for each in list(self.workers) if each.poll() is not None]
        return [self._record_death(each, "reached its crash point") for each in dead]

    def _record_death(self, process: Process, cause: str) -> str:
        """Record the death of a process. One that found PostgreSQL down during its start may have given
        up.
        """
        said, _ = process.communicate()
        with self._turn:
            name = self.workers.pop(process)
        is_killed = process.returncode == -signal.SIGKILL
        assert is_killed or (process not in self.ready and not said), (
            f"{name} ended: {self.read_logs()[-20:]}"
        )
        assert not any(line.startswith("Traceback") for line in self.read_logs()), self.read_logs()[-20:]
        self.deaths.append(f"{name} {cause if is_killed else 'did not start'}")
        return name

    def read_first_line(self, process: Process) -> str:
        """Wait until the process is ready, and return the line it prints then."""
        self.ready.add(process)
        return super().read_first_line(process)

    def stop_workers(self) -> None:
        """Stop all workers gracefully: each finishes its work. Wait for those that are still starting."""
        for process in self.workers:
            if process not in self.ready and process.stdout is not None:
                process.stdout.readline()
            process.terminate()
        for process in list(self.workers):
            process.communicate(timeout=PATIENCE_S)
            is_fated = process in self.crashing and process.returncode == -signal.SIGKILL
            assert process.returncode == 0 or is_fated, self.read_logs()[-20:]
        self.workers.clear()

    def kill_postgres(self) -> bool:
        """Kill PostgreSQL. Return False if it is down already."""
        server = find_running_server(self.postgres)
        if server is None:  # a process is about to start it
            return False
        os.kill(server.pid, signal.SIGKILL)
        self.deaths.append("PostgreSQL killed")
        return True

    # --- database and external services ---------------------------------------------------------------------

    def query(self, text: str) -> list[dict[str, Any]]:
        """Query the database. One of our processes must keep it running."""
        server = find_running_server(self.postgres)
        assert server is not None, "PostgreSQL is down and was not restarted"
        place = {"host": server.socket_folder, "port": server.port, "user": "postgres", "dbname": "holdfast"}
        with closing(psycopg.connect(**place, row_factory=dict_row)) as connection:  # type: ignore[arg-type]
            return [dict(row) for row in connection.execute(text.encode()).fetchall()]

    def post_to(self, service: str, path: str, body: Any) -> None:
        """POST JSON to the sandbox of a service."""
        httpx2.post(self.service_urls[service] + path, json=body, timeout=PATIENCE_S).raise_for_status()

    def get_from(self, service: str, path: str) -> Any:
        """GET JSON from the sandbox of a service."""
        return httpx2.get(self.service_urls[service] + path, timeout=PATIENCE_S).raise_for_status().json()


def _find_free_port() -> int:
    """Find a free port, known before the server listens on it and stable across restarts."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port
