"""Run a system as processes of the command line, on one folder and one clock, for tests that kill them.

The clock is in a file and runs like the machine's. When nothing has been written for a while, every process
waits for a deadline, and the clock jumps ahead: waiting out the visibility timeout of every killed worker
would take minutes.
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
# After this long without a write, the clock jumps ahead by this much.
QUIET_S: Final = 0.5
JUMP_S: Final = 3.0
WATCHED: Final = ("tables.db-wal", "queues.db-wal")
URL: Final = re.compile(r"http://127\.0\.0\.1:\d+")

Process = subprocess.Popen[str]
S = TypeVar("S", bound="SystemStage")


class SystemStage:
    """A folder with the data, the clock and the logs of every process; leaving it ends the processes."""

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
        self.clock = MovingClock(self.clock_file, start, [self.data / name for name in WATCHED], jump_s)
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

    def open_stores(self) -> Stores:
        return open_stores(self.system, self.settings)

    # --- processes ------------------------------------------------------------------------------------------

    def serve(self, *arguments: str) -> str:
        """Start a server and return its address."""
        process = self.start_process("server", "run", self.system.name, *arguments, "--port", "0")
        found = URL.search(self.read_first_line(process))
        assert found is not None
        return found[0]

    def run_command(self, *arguments: str) -> str:
        """Run a `holdfast` command and return its output; fail if it does not exit with 0."""
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

    def start_process(
        self, name: str, *arguments: str, module: str = "holdfast", **variables: str
    ) -> Process:
        """Start a Python module as a process with the stage's settings; `name` is that of its log file."""
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

    def read_first_line(self, process: Process) -> str:
        """Return the first line that the process prints; fail with the logs if it ends before."""
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, f"{process.args!r} did not start: {self.read_logs()[-5:]}"
        return line

    def read_logs(self) -> list[str]:
        """Read the lines of all logs."""
        return [line for file in sorted(self.logs.iterdir()) for line in file.read_text().splitlines()]

    @property
    def _environment(self) -> dict[str, str]:
        return {**os.environ, **self.variables}


class MovingClock:
    """A run clock that a thread moves like the machine's clock, with jumps while they are allowed.

    It jumps when the watched files, or folders of files, have not been written to for a while.
    """

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
        seen, changed_at, last = 0, time.perf_counter(), time.perf_counter()
        while not self._stopped.wait(TICK_S):
            now = time.perf_counter()
            self.advance(now - last)
            last = now
            if (newest := self._get_last_write()) != seen:
                seen, changed_at = newest, now
            if self._may_jump.is_set() and now - changed_at > QUIET_S:
                self.advance(self._jump_s)
                self.jumps, changed_at = self.jumps + 1, now

    def _get_last_write(self) -> int:
        """Return the time of the last write to any of the files."""
        return max((_get_write_time(path) for path in self._watched), default=0)


def _get_write_time(path: Path) -> int:
    """Return the time of the last write below the path; 0 if it does not exist."""
    try:
        if path.is_dir():
            return max((_get_write_time(each) for each in path.iterdir()), default=0)
        return path.stat().st_mtime_ns
    except FileNotFoundError:  # it does not exist yet, or was removed
        return 0
