"""Processes of a test, forked from one that has everything imported, so that they start in milliseconds.

    preload("tripcortex.api.routes")                        # as the test module is imported
    process = Process("tests.faults.flow_process", folder)  # runs `main(folder)` of that module
    command = Process("tests.processes", "why", "pagw", id) # runs `holdfast why pagw ID`

A process has its own environment, standard input and output, and a log for its standard error. `main` may be
async.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from itertools import count
from multiprocessing.connection import Connection, wait
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import IO, Any, Final

import holdfast.cli

ROOT: Final = Path(__file__).parents[1]
# The longest time that a process may take for anything.
PATIENCE_S: Final = 60.0

_FORKSERVER: Final = multiprocessing.get_context("forkserver")
_numbers: Final = count()
# pytest is the main module of this process, which each process would import again.
_preloaded: Final = ["pytest", __name__]


def preload(*modules: str) -> None:
    """Import these modules once, before the first process is forked. Call it as a test module is imported."""
    _preloaded.extend(each for each in modules if each not in _preloaded)
    _FORKSERVER.set_forkserver_preload(_preloaded)


def main(*arguments: str) -> None:
    """Run a `holdfast` command in this process."""
    sys.argv = ["holdfast", *arguments]
    holdfast.cli.main()


class Process:
    """A process that runs `main` of a module. Leaving its block, or `close`, ends it."""

    def __init__(
        self,
        module: str,
        *arguments: Any,
        log: Path | None = None,
        folder: Path = ROOT,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.name = module
        self.log = log or Path(_get_log_folder(), f"{next(_numbers)}.log")
        self.log.touch()
        own_input, given_input = _FORKSERVER.Pipe(duplex=False)
        given_output, own_output = _FORKSERVER.Pipe(duplex=False)
        environment = {**os.environ, **(variables or {})}
        self._process = _FORKSERVER.Process(
            target=_run, args=(module, arguments, folder, environment, self.log, own_input, own_output)
        )
        self._process.start()
        own_input.close()
        own_output.close()
        self.stdin = _open(given_input, "w")
        self.stdout = _open(given_output, "r")
        self._first_line: str | None = None
        self._turn = threading.Lock()

    def __enter__(self) -> Process:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.close()

    # --- its end --------------------------------------------------------------------------------------------

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def sentinel(self) -> int:
        """A file that is readable once the process has ended."""
        return self._process.sentinel

    @property
    def returncode(self) -> int | None:
        """The exit code; negative for a signal, None while it runs."""
        with self._turn:  # two threads must not read the exit code at the same time
            return self._process.exitcode

    @property
    def is_alive(self) -> bool:
        return self.returncode is None

    @property
    def is_killed(self) -> bool:
        return self.returncode == -signal.SIGKILL

    def wait(self, timeout: float = PATIENCE_S) -> int:
        """Wait for its end and return the exit code. Raise AssertionError if it takes longer."""
        assert wait([self.sentinel], timeout), f"{self.name} does not end: {self.read_log()[-4000:]}"
        code = self.returncode
        assert code is not None
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.is_alive:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it and wait for its end."""
        self.send_signal(signal.SIGKILL)
        self.wait()

    def close(self) -> None:
        """Kill it if it runs, and close its files."""
        self.kill()
        self.stdout.close()
        with suppress(BrokenPipeError):  # text that was not sent
            self.stdin.close()

    # --- its output -----------------------------------------------------------------------------------------

    def read_first_line(self) -> str:
        """Return the first line that it prints, which says that it is ready; empty if it ends before."""
        if self._first_line is None:
            self._first_line = self.stdout.readline()
        return self._first_line

    def send_line(self, line: str) -> None:
        self.stdin.write(f"{line}\n")
        self.stdin.flush()

    def communicate(self, text: str = "") -> tuple[str, str]:
        """Send the text and the end of input, wait for its end, and return its output and its log."""
        with suppress(BrokenPipeError):  # it has ended
            self.stdin.write(text)
            self.stdin.close()
        said = self.stdout.read()
        self.wait()
        self.close()
        return said, self.read_log()

    def read_log(self) -> str:
        return self.log.read_text()


def wait_for_first_end(processes: Sequence[Process], timeout: float | None = None) -> list[Process]:
    """Wait until one of the processes ends; return all that have. Return none after the timeout."""
    ended = wait([each.sentinel for each in processes], timeout)
    return [each for each in processes if each.sentinel in ended]


def _open(connection: Connection, mode: str) -> IO[str]:
    """Open one end of a pipe as a text file."""
    file = os.fdopen(os.dup(connection.fileno()), mode)
    connection.close()
    return file


def _get_log_folder(made: list[TemporaryDirectory[str]] = []) -> str:  # noqa: B006 - one for all calls
    """Return the folder of the logs for which no other place was named; it is removed at exit."""
    if not made:
        made.append(TemporaryDirectory(prefix="holdfast-test-"))
    return made[0].name


def _run(
    module: str,
    arguments: Sequence[Any],
    folder: Path,
    environment: Mapping[str, str],
    log: Path,
    stdin: Connection,
    stdout: Connection,
) -> None:
    """Run `main` of the module in the forked process, as if it had been started with these files."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    os.dup2(stdin.fileno(), 0)
    os.dup2(stdout.fileno(), 1)
    os.dup2(os.open(log, os.O_WRONLY | os.O_APPEND), 2)
    stdin.close()
    stdout.close()
    # `multiprocessing` has replaced it.
    sys.stdin = os.fdopen(0)
    # A collection would write to, and so copy, all memory that is shared with the process forked from.
    gc.freeze()
    ended = import_module(module).main(*arguments)
    if inspect.iscoroutine(ended):
        asyncio.run(ended)
