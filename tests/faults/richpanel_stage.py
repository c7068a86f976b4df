"""The middleware as processes: the help desk's sandbox, the door, workers that are killed; for `test_richpanel_killed.py`.

All of them go by one clock in a file. It runs as the machine's does. When nothing has been written for a while, everybody
waits for a deadline, and the clock is moved on: to wait out the visibility of every killed worker would take minutes.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx

from holdfast import Stores, open_stores, queue_reports
from holdfast.clock import RunClock
from holdfast.runtime.preparation import QueueReport
from holdfast.settings import Settings
from richpanel import SYSTEM

from .richpanel_traffic import START

SECRET = "a-webhook-secret-of-this-test"
TICK_S = 0.02
# So long nothing is written, and then the clock is so much further.
QUIET_S = 0.5
JUMP_S = 3.0
URL = re.compile(r"http://127\.0\.0\.1:\d+")


class Stage:
    """A folder with the data, the clock, and what every process wrote to its log."""

    def __init__(self, folder: Path, **variables: str) -> None:
        self.data, self.logs = folder / "data", folder / "logs"
        self.data.mkdir(parents=True)
        self.logs.mkdir()
        self.clock_file = folder / "clock"
        self.clock = MovedClock(self.clock_file, self.data)
        self.variables = {
            "HOLDFAST_TABLES": f"sqlite:{self.data / 'tables.db'}",
            "HOLDFAST_QUEUES": f"sqlite:{self.data / 'queues.db'}",
            "HOLDFAST_OBJECTS": f"file:{self.data / 'objects'}",
            "HOLDFAST_KEYS": f"file:{folder / 'keys.json'}",
            "HOLDFAST_ENVIRONMENT": "test",
            "HOLDFAST_RUN_CLOCK": str(self.clock_file),
            "HOLDFAST_SECRET_RICHPANEL_WEBHOOK": SECRET,
            **variables,
        }
        self.workers: list[subprocess.Popen[str]] = []
        self._servers: list[subprocess.Popen[str]] = []
        self._files: list[Any] = []

    def __enter__(self) -> Stage:
        self.clock.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        for process in (*self.workers, *self._servers):
            process.kill()
            process.communicate()
        self.clock.stop()
        for file in self._files:
            file.close()

    @property
    def settings(self) -> Settings:
        return Settings.load(environ=self.variables)

    def stores(self) -> Stores:
        return open_stores(SYSTEM, self.settings)

    # --- processes ----------------------------------------------------------------------------------------------

    def serve(self, *arguments: str) -> str:
        """A server, and the address at which it answers."""
        process = self._started("server", "run", "richpanel", *arguments, "--port", "0")
        self._servers.append(process)
        found = URL.search(self._first_line(process))
        assert found is not None
        return found[0]

    def add_worker(self) -> None:
        self.workers.append(self._started("worker", "run", "richpanel", "--component", "worker"))

    def await_worker(self, worker: subprocess.Popen[str]) -> None:
        self._first_line(worker)

    def kill(self, worker: subprocess.Popen[str]) -> None:
        worker.send_signal(signal.SIGKILL)
        worker.communicate()
        assert worker.returncode == -signal.SIGKILL, f"a worker had ended by itself: {self.said()[-3:]}"
        self.workers.remove(worker)

    def stop_workers(self) -> None:
        """In good order: each brings to its end what it has in hand."""
        for worker in self.workers:
            worker.terminate()
        for worker in self.workers:
            worker.communicate(timeout=60)
            assert worker.returncode == 0, self.said()[-3:]
        self.workers.clear()

    def command(self, *arguments: str) -> str:
        """What a command of ours prints."""
        done = subprocess.run(
            [sys.executable, "-m", "holdfast", *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def said(self) -> list[str]:
        """The lines of all logs."""
        return [line for file in sorted(self.logs.iterdir()) for line in file.read_text().splitlines()]

    @property
    def _environment(self) -> dict[str, str]:
        return {**os.environ, **self.variables}

    def _started(self, name: str, *arguments: str) -> subprocess.Popen[str]:
        log = (self.logs / f"{len(self._files):03}-{name}.log").open("w")
        self._files.append(log)
        return subprocess.Popen(
            [sys.executable, "-m", "holdfast", *arguments],
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )

    def _first_line(self, process: subprocess.Popen[str]) -> str:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, f"{process.args!r} did not start: {self.said()[-5:]}"
        return line


class MovedClock:
    """The run clock, with a thread that moves it."""

    def __init__(self, file: Path, watched: Path) -> None:
        self.run = RunClock(file, start=START.timestamp())
        self.jumps = 0
        self._watched = watched
        self._turn, self._stopped = threading.Lock(), threading.Event()
        self._thread = threading.Thread(target=self._move, daemon=True)
        self._may_jump = threading.Event()

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    @contextmanager
    def jumping(self) -> Iterator[None]:
        self._may_jump.set()
        yield
        self._may_jump.clear()

    def now(self) -> float:
        return self.run.now()

    def advance(self, seconds: float) -> None:
        with self._turn:
            self.run.advance(seconds)

    def _move(self) -> None:
        seen, changed_at, last = 0, time.perf_counter(), time.perf_counter()
        while not self._stopped.wait(TICK_S):
            now = time.perf_counter()
            self.advance(now - last)
            last = now
            if (newest := self._newest()) != seen:
                seen, changed_at = newest, now
            if self._may_jump.is_set() and now - changed_at > QUIET_S:
                self.advance(JUMP_S)
                self.jumps, changed_at = self.jumps + 1, now

    def _newest(self) -> int:
        """When any of the files was written to last."""
        logs = (self._watched / name for name in ("tables.db-wal", "queues.db-wal"))
        return max((log.stat().st_mtime_ns for log in logs if log.exists()), default=0)


async def queue_now(stores: Stores) -> QueueReport:
    [report] = await queue_reports(stores, SYSTEM.queues)
    return report


def desk_client(url: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=url, timeout=30)
