"""A system as processes by the command line, on one folder and one clock that is moved on; for tests that kill them.

The clock is in a file. It runs as the machine's does. When nothing has been written for a while, everybody waits for a
deadline, and the clock is moved on: to wait out the visibility of every killed worker would take minutes.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Final, TypeVar

from holdfast import Stores, System, open_stores
from holdfast.config.settings import Settings
from holdfast.core.clock import RunClock

ROOT: Final = Path(__file__).parents[2]
TICK_S: Final = 0.02
# So long nothing is written, and then the clock is so much further.
QUIET_S: Final = 0.5
JUMP_S: Final = 3.0
WATCHED: Final = ("tables.db-wal", "queues.db-wal")
URL: Final = re.compile(r"http://127\.0\.0\.1:\d+")

Process = subprocess.Popen[str]
S = TypeVar("S", bound="Staged")


class Staged:
    """A folder with the data, the clock, and what every process wrote to its log. Those started end with it."""

    def __init__(
        self,
        system: System,
        folder: Path,
        start: datetime,
        *,
        jump_s: float = JUMP_S,
        **variables: str,
    ) -> None:
        self.system = system
        self.data, self.logs = folder / "data", folder / "logs"
        self.data.mkdir(parents=True)
        self.logs.mkdir()
        self.clock_file = folder / "clock"
        self.clock = MovedClock(self.clock_file, start, [self.data / name for name in WATCHED], jump_s)
        self.variables = {
            "HOLDFAST_TABLES": f"sqlite:{self.data / 'tables.db'}",
            "HOLDFAST_QUEUES": f"sqlite:{self.data / 'queues.db'}",
            "HOLDFAST_OBJECTS": f"file:{self.data / 'objects'}",
            "HOLDFAST_KEYS": f"file:{folder / 'keys.json'}",
            "HOLDFAST_ENVIRONMENT": "test",
            "HOLDFAST_RUN_CLOCK": str(self.clock_file),
            **variables,
        }
        self._processes: list[Process] = []
        self._files: list[Any] = []

    def __enter__(self: S) -> S:
        self.clock.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()
        self.clock.stop()
        for file in self._files:
            file.close()

    @property
    def settings(self) -> Settings:
        return Settings.load(environ=self.variables)

    def stores(self) -> Stores:
        return open_stores(self.system, self.settings)

    # --- processes ------------------------------------------------------------------------------------------

    def serve(self, *arguments: str) -> str:
        """A server, and the address at which it answers."""
        process = self.started("server", "run", self.system.name, *arguments, "--port", "0")
        found = URL.search(self.first_line(process))
        assert found is not None
        return found[0]

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

    def started(self, name: str, *arguments: str, module: str = "holdfast", **variables: str) -> Process:
        log = (self.logs / f"{len(self._files):03}-{name}.log").open("w")
        self._files.append(log)
        process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            cwd=ROOT,
            env={**self._environment, **variables},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        self._processes.append(process)
        return process

    def first_line(self, process: Process) -> str:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, f"{process.args!r} did not start: {self.said()[-5:]}"
        return line

    def said(self) -> list[str]:
        """The lines of all logs."""
        return [line for file in sorted(self.logs.iterdir()) for line in file.read_text().splitlines()]

    @property
    def _environment(self) -> dict[str, str]:
        return {**os.environ, **self.variables}


class MovedClock:
    """The run clock, with a thread that moves it. `watched` are files, or folders of files."""

    def __init__(self, file: Path, start: datetime, watched: list[Path], jump_s: float) -> None:
        self.run = RunClock(file, start=start.timestamp())
        self.jumps = 0
        self._watched, self._jump_s = watched, jump_s
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

    def watch(self, path: Path) -> None:
        self._watched.append(path)

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
                self.advance(self._jump_s)
                self.jumps, changed_at = self.jumps + 1, now

    def _newest(self) -> int:
        """When any of the files was written to last."""
        return max((_written_at(path) for path in self._watched), default=0)


def _written_at(path: Path) -> int:
    try:
        if path.is_dir():
            return max((_written_at(each) for each in path.iterdir()), default=0)
        return path.stat().st_mtime_ns
    except FileNotFoundError:  # not there yet, or not any more
        return 0
