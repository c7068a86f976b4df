"""Run a system as processes on one folder and one clock, with the sandboxes of its external services.

Workers run the command line, or a module of the test that kills itself at a chosen point. The clock is in a
file. With `jump_s` it runs like the machine's, and jumps ahead when nothing has been written for a while:
then every process waits for a deadline, and waiting out the lease of every killed worker would take minutes.
"""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import httpx2
import psycopg
from psycopg.rows import dict_row

from holdfast import Stores, System, open_stores
from holdfast.config.settings import Settings
from holdfast.core.clock import RunClock
from holdfast.stores.sql.postgres.embedded import find_running_server
from holdfast.web import find_free_port, serve_in_thread
from tests.postgres import new_folder
from tests.processes import PATIENCE_S, Process, preload

TICK_S: Final = 0.02
# After this long without a write, the clock jumps ahead.
QUIET_S: Final = 0.5
WATCHED: Final = ("tables.db-wal", "queues.db-wal")
URL: Final = re.compile(r"http://127\.0\.0\.1:\d+")
COMMAND: Final = "tests.processes"

# Modules that every worker would import.
preload(
    "holdfast.cli.commands.run",
    "holdfast.web.app",
    "holdfast.web.server",
    "holdfast.runtime.telemetry.metrics",
    "holdfast.stores.tables.embedded",
    "holdfast.stores.queues.embedded",
    "holdfast.stores.objects.local",
    "holdfast.stores.cache.memory",
    "httpcore2",
    "opentelemetry.exporter.prometheus",
    "uvicorn.lifespan.on",
    "uvicorn.protocols.http.httptools_impl",
    "uvicorn.protocols.websockets.auto",
    "uvloop",
)

BuildSandboxes = Callable[[RunClock, Path], Mapping[str, Any]]


class SystemProcesses:
    """A folder with the data, the clock and the logs of all processes; leaving its block ends them.

    `sandboxes` builds the apps of the external services by name: they run in one process that is never
    killed, with ledgers in a folder. `workers` are the running workers.
    """

    def __init__(
        self,
        system: System,
        folder: Path,
        start: datetime,
        *,
        sandboxes: BuildSandboxes | None = None,
        jump_s: float | None = None,
        servers: int = 1,
        with_postgres: bool = False,
        **variables: str,
    ) -> None:
        self.system = system
        self.data, self.logs, self.ledgers = folder / "data", folder / "logs", folder / "ledgers"
        for each in (self.data, self.logs, self.ledgers):
            each.mkdir(parents=True)
        self.clock = MovingClock(folder / "clock", start, jump_s)
        for name in WATCHED:
            self.clock.watch(self.data / name)
        self.variables = build_variables(self.data, folder / "keys.json", folder / "clock") | variables
        self.urls: dict[str, str] = {}
        self.servers = [f"http://127.0.0.1:{find_free_port()}" for _ in range(servers)]
        self.workers: dict[Process, str] = {}
        self.deaths: list[str] = []
        self._build_sandboxes, self._with_postgres = sandboxes, with_postgres
        self._started: list[Process] = []
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        if self._with_postgres:
            # Not pytest's folder: the server's user needs access.
            self.postgres = self._stack.enter_context(new_folder())
            self.variables["HOLDFAST_SQL"] = f"postgres:{self.postgres}"
        self.clock.start()
        if self._build_sandboxes is not None:
            self._serve_sandboxes(self._build_sandboxes)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        for process in self._started:
            process.close()
        self.clock.stop()
        self._stack.close()

    def open_stores(self) -> Stores:
        """Open the stores in this process."""
        return open_stores(self.system, Settings.load(environ=self.variables))

    # --- processes ------------------------------------------------------------------------------------------

    def start(self, name: str, module: str, *arguments: Any, **variables: str) -> Process:
        """Start a process with the variables of this system; `name` is that of its log file."""
        log = self.logs / f"{len(self._started):03}-{name.replace(' ', '-')}.log"
        process = Process(module, *arguments, log=log, variables={**self.variables, **variables})
        self._started.append(process)
        return process

    def serve(self, *arguments: str) -> str:
        """Start `holdfast run` with these arguments at a free port, and return its address."""
        process = self.start("server", COMMAND, "run", self.system.name, *arguments, "--port", "0")
        found = URL.search(process.read_first_line())
        assert found is not None, process.read_log()
        return found[0]

    def run_command(self, *arguments: str) -> str:
        """Run a `holdfast` command and return its output; fail if it does not exit with 0."""
        process = self.start("command", COMMAND, *arguments)
        said, log = process.communicate()
        assert process.returncode == 0, log
        return said

    def read_logs(self) -> list[str]:
        """Read the lines of all logs."""
        return [line for file in sorted(self.logs.iterdir()) for line in file.read_text().splitlines()]

    # --- workers --------------------------------------------------------------------------------------------

    def add_worker(
        self, name: str, *components: str, module: str = COMMAND, port_of: str = "", **variables: str
    ) -> Process:
        """Start a worker that runs these components, without waiting until it is ready.

        It listens on the port of the address `port_of`, if one is given.
        """
        chosen = [word for each in components for word in ("--component", each)]
        port = ("--port", port_of.rpartition(":")[2]) if port_of else ()
        worker = self.start(name, module, "run", self.system.name, *chosen, *port, **variables)
        self.workers[worker] = name
        return worker

    def wait_until_ready(self, *workers: Process) -> None:
        """Wait until these workers are ready, or all of them; fail if one ends before."""
        for worker in workers or tuple(self.workers):
            assert worker.read_first_line(), f"{worker.name} did not start: {worker.read_log()[-4000:]}"

    def kill(self, worker: Process) -> str:
        """Kill the worker and return its name, for its replacement."""
        worker.kill()
        return self._remove_dead(worker, "killed")

    def take_dead(self) -> list[str]:
        """Remove the workers that killed themselves and return their names. Any other end fails the test."""
        dead = [each for each in list(self.workers) if not each.is_alive]
        return [self._remove_dead(each, "reached its kill point") for each in dead]

    def stop_workers(self, *, may_be_killed: bool = False) -> None:
        """Stop all workers in order, once they have started: each finishes its work.

        With `may_be_killed`, one may reach its kill point meanwhile.
        """
        for worker in self.workers:
            worker.read_first_line()
            worker.send_signal(signal.SIGTERM)
        for worker, name in self.workers.items():
            code = worker.wait()
            assert code == 0 or (may_be_killed and worker.is_killed), (name, code, self.read_logs()[-20:])
        self.workers.clear()

    def _remove_dead(self, worker: Process, cause: str) -> str:
        name = self.workers.pop(worker)
        assert self.may_end(worker), f"{name} ended with {worker.returncode}: {self.read_logs()[-20:]}"
        self.deaths.append(f"{name} {cause if worker.is_killed else 'did not start'}")
        return name

    def may_end(self, worker: Process) -> bool:
        """Return whether a worker may have ended as it did: only by SIGKILL."""
        return worker.is_killed

    # --- external services ----------------------------------------------------------------------------------

    def _serve_sandboxes(self, build: BuildSandboxes) -> None:
        """Serve the sandboxes in a process and set `urls`."""
        clock_file = self.variables["HOLDFAST_RUN_CLOCK"]
        serving = self.start("sandboxes", __name__, build, Path(clock_file), self.ledgers)
        line = serving.read_first_line()
        assert line, serving.read_log()
        self.urls = json.loads(line)
        self.http = self._stack.enter_context(httpx2.Client(timeout=PATIENCE_S))

    def post(self, service: str, path: str, body: Any) -> None:
        """POST JSON to the sandbox of a service."""
        self.http.post(self.urls[service] + path, json=body).raise_for_status()

    def get(self, service: str, path: str) -> Any:
        """GET JSON from the sandbox of a service."""
        return self.http.get(self.urls[service] + path).raise_for_status().json()

    # --- PostgreSQL -----------------------------------------------------------------------------------------

    def kill_postgres(self) -> bool:
        """Kill PostgreSQL. Return False if it is down already."""
        server = find_running_server(self.postgres)
        if server is None:  # a process is about to start it
            return False
        os.kill(server.pid, signal.SIGKILL)
        self.deaths.append("PostgreSQL killed")
        return True

    def query(self, text: str) -> list[dict[str, Any]]:
        """Query the database. One of the processes must keep it running."""
        server = find_running_server(self.postgres)
        assert server is not None, "PostgreSQL is down and was not restarted"
        place = {"host": server.socket_folder, "port": server.port, "user": "postgres", "dbname": "holdfast"}
        with closing(psycopg.connect(**place, row_factory=dict_row)) as connection:  # type: ignore[arg-type]
            return [dict(row) for row in connection.execute(text.encode()).fetchall()]


def main(build: BuildSandboxes, clock_file: Path, ledgers: Path) -> None:
    """Serve sandboxes until standard input is closed; print their addresses first, as a line of JSON."""
    with ExitStack() as stack:
        apps = build(RunClock(clock_file), ledgers)
        urls = {name: stack.enter_context(serve_in_thread(app)) for name, app in apps.items()}
        os.write(1, json.dumps(urls).encode() + b"\n")
        os.read(0, 1)


def build_variables(data: Path, keys: Path, clock_file: Path | None = None) -> dict[str, str]:
    """Return the environment variables that open the data folder, with the clock in a file if given."""
    return {
        "HOLDFAST_TABLES": f"sqlite:{data / 'tables.db'}",
        "HOLDFAST_QUEUES": f"sqlite:{data / 'queues.db'}",
        "HOLDFAST_OBJECTS": f"file:{data / 'objects'}",
        "HOLDFAST_KEYS": f"file:{keys}",
        "HOLDFAST_ENVIRONMENT": "test",
        "HOLDFAST_RUN_CLOCK": "" if clock_file is None else str(clock_file),
    }


class MovingClock:
    """A run clock that a thread moves like the machine's clock, with jumps while they are allowed.

    It jumps by `jump_s` when the watched files, or folders of files, have not been written to for a while.
    Without `jump_s`, only the test moves it.
    """

    def __init__(self, file: Path, start: datetime, jump_s: float | None) -> None:
        self.run = RunClock(file, start=start.timestamp())
        self.jumps = 0
        # Says whether the clock must not jump now, for another reason than a write.
        self.is_held: Callable[[], bool] = lambda: False
        self._watched: list[Path] = []
        self._jump_s = jump_s
        self._turn, self._stopped = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._move, daemon=True)
        self._may_jump = threading.Event()

    def start(self) -> None:
        if self._jump_s is not None:
            self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._jump_s is not None:
            self._thread.join()

    @contextmanager
    def allow_jumps(self) -> Iterator[None]:
        """Let the clock jump ahead while the block runs and nothing is written."""
        self._may_jump.set()
        yield
        self._may_jump.clear()

    def watch(self, path: Path) -> None:
        self._watched.append(path)

    def now(self) -> float:
        return self.run.now()

    def advance(self, seconds: float) -> None:
        with self._turn:
            self.run.advance(seconds)

    def _move(self) -> None:
        """Move the clock with the machine's time, and jump if allowed and quiet, until stopped."""
        assert self._jump_s is not None
        seen, changed_at, last = 0, time.perf_counter(), time.perf_counter()
        while not self._stopped.wait(TICK_S):
            now = time.perf_counter()
            self.advance(now - last)
            last = now
            newest = max(map(get_write_time, self._watched))
            if newest != seen or self.is_held():
                seen, changed_at = newest, now
            if self._may_jump.is_set() and now - changed_at > QUIET_S:
                self.advance(self._jump_s)
                self.jumps, changed_at = self.jumps + 1, now


def get_write_time(path: Path) -> int:
    """Return the time of the last write below the path; 0 if it does not exist."""
    try:
        if path.is_dir():
            return max((get_write_time(each) for each in path.iterdir()), default=0)
        return path.stat().st_mtime_ns
    except FileNotFoundError:  # it does not exist yet, or was removed
        return 0
