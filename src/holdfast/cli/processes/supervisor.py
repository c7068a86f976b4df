"""The supervisor of `holdfast up`: it starts several processes that run and stop together.

The supervisor passes a signal on to each process and exits when all have. A process that was ready and ends,
or is killed, is restarted after a pause that doubles each time. If it keeps ending, or exits before it is
ready, a restart does not help: the others are stopped too, because half a system is worse than none.

Standard output of each process is passed on. A process prints its first line when it is ready, so the
supervisor knows when all are.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from holdfast.core.limits import RECEIVE_WAIT_S, SHUTDOWN_GRACE_S, WORKER_GRACE_S

# Windows has no SIGHUP.
SIGNALS: Final = tuple(each for each in signal.Signals if each.name in ("SIGINT", "SIGTERM", "SIGHUP"))
# Longer than a server needs for its open requests and its workers for their current messages.
STOP_TIMEOUT_S: Final = SHUTDOWN_GRACE_S + RECEIVE_WAIT_S + WORKER_GRACE_S + 5

MAX_RESTARTS: Final = 5
RESTART_PAUSE_S: Final = 0.5
MAX_RESTART_PAUSE_S: Final = 30.0
# After running this long, a process starts again with a restart count of 0.
STABLE_AFTER_S: Final = 60.0
OUTPUT_CHUNK_BYTES: Final = 65_536
MAX_OUTPUT_DRAIN_S: Final = 1.0


@dataclass(frozen=True)
class ChildProcess:
    """A process to start: its name for people, its command, and variables added to the environment."""

    name: str
    command: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    # Words after the command until it was ready once: what a restart must not do again.
    first_options: tuple[str, ...] = ()
    # The address to show to people, if it has one that is known before the start.
    url: str = ""


async def supervise(
    children: Sequence[ChildProcess],
    *,
    report: Callable[[str], None] = lambda line: None,
    on_ready: Callable[[], None] = lambda: None,
    pause_s: float = RESTART_PAUSE_S,
) -> str | None:
    """Run the processes until a signal, or until one exits for good. Return which one and how, or None.

    `report` receives a line for each restart. `on_ready` is called once, when all processes are
    ready.
    """
    group = _ProcessGroup(report, pause_s)
    group.call_when_ready(children, on_ready)
    loop = asyncio.get_running_loop()
    for each in SIGNALS:
        loop.add_signal_handler(each, group.terminate_all)
    try:
        for child in children:
            await group.start(child)
        return await group.wait_until_ended(children)
    finally:
        await group.stop()
        for each in SIGNALS:
            loop.remove_signal_handler(each)


class _ProcessGroup:
    """The started processes, by name."""

    def __init__(self, report: Callable[[str], None], pause_s: float) -> None:
        self._report, self._pause_s = report, pause_s
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._is_stopping = asyncio.Event()
        self._output_tasks: dict[str, asyncio.Task[None]] = {}
        # Processes that were never ready, and those that are not ready since their last start.
        self._not_ready: set[str] = set()
        self._silent: set[str] = set()
        self._on_all_ready: Callable[[], None] = lambda: None

    def call_when_ready(self, children: Sequence[ChildProcess], callback: Callable[[], None]) -> None:
        """Call the callback once, when each of these processes has printed something."""
        self._not_ready, self._on_all_ready = {child.name for child in children}, callback

    async def start(self, child: ChildProcess) -> None:
        """Start the process and forward its output, unless the group is stopping."""
        if self._is_stopping.is_set():
            return
        # In its own process group, so that Ctrl-C in a terminal reaches it once, through the supervisor.
        process = await asyncio.create_subprocess_exec(
            *child.command,
            *(child.first_options if child.name in self._not_ready else ()),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            process_group=0,
            env=os.environ | dict(child.variables),
        )
        self._processes[child.name] = process
        assert process.stdout is not None
        self._silent.add(child.name)
        self._output_tasks[child.name] = asyncio.create_task(self._forward_output(child.name, process.stdout))
        if self._is_stopping.is_set():
            _terminate(process)

    async def _forward_output(self, name: str, output: asyncio.StreamReader) -> None:
        """Copy the process's output to standard output; its first output means that it is ready."""
        while chunk := await output.read(OUTPUT_CHUNK_BYTES):
            # If the reader of our standard output is gone, the children must not block.
            with suppress(OSError, ValueError):
                sys.stdout.buffer.write(chunk)
                sys.stdout.buffer.flush()
            self._silent.discard(name)
            if name in self._not_ready:
                self._not_ready.discard(name)
                if not self._not_ready:
                    self._on_all_ready()

    def terminate_all(self) -> None:
        """Mark the group as stopping and send SIGTERM to every process that runs."""
        self._is_stopping.set()
        for process in self._processes.values():
            _terminate(process)

    async def wait_until_ended(self, children: Sequence[ChildProcess]) -> str | None:
        """Wait until a process exits for good, or until all have exited after a signal.

        Return a sentence about the exit; None if all exited normally after a signal.
        """
        started = [child for child in children if child.name in self._processes]
        watches = {asyncio.create_task(self._watch(child)): child.name for child in started}
        try:
            while watches:
                done, _ = await asyncio.wait(watches, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    name, (code, restarts) = watches.pop(task), task.result()
                    if not self._is_stopping.is_set() or code > 0:
                        return _describe_exit(name, code) + _describe_restarts(restarts)
            return None
        finally:
            for task in watches:
                task.cancel()

    async def _watch(self, child: ChildProcess) -> tuple[int, int]:
        """Wait for the process and restart it as allowed. Return the exit code with which it ended for good,
        and the restarts that did not help.
        """
        restarts, now = 0, asyncio.get_running_loop().time
        while True:
            started_at = now()
            code = await self._wait_for_exit(child.name)
            restarts = 0 if now() - started_at > STABLE_AFTER_S else restarts
            refused = code >= 0 and child.name in self._silent
            if self._is_stopping.is_set() or refused or restarts == MAX_RESTARTS:
                return code, restarts
            pause_s = min(self._pause_s * 2**restarts, MAX_RESTART_PAUSE_S)
            restarts += 1
            self._report(
                f"{_describe_exit(child.name, code)} It is restarted in {pause_s:g} s "
                f"({restarts} of {MAX_RESTARTS})."
            )
            if await self._wait_before_restart(pause_s):
                return 0, restarts
            await self.start(child)

    async def _wait_for_exit(self, name: str) -> int:
        """Return the exit code of a process, once its output is read: the last of it may say that it was
        ready.
        """
        code = await self._processes[name].wait()
        # A grandchild that outlives the process may keep the pipe open.
        await asyncio.wait([self._output_tasks[name]], timeout=MAX_OUTPUT_DRAIN_S)
        return code

    async def _wait_before_restart(self, pause_s: float) -> bool:
        """Wait before a restart. Return True if all processes are stopping meanwhile."""
        try:
            await asyncio.wait_for(self._is_stopping.wait(), pause_s)
        except TimeoutError:
            return False
        return True

    async def stop(self) -> None:
        """Terminate the processes that still run, and kill those that do not exit in time."""
        running = [process for process in self._processes.values() if process.returncode is None]
        for process in running:
            _terminate(process)
        waits = [asyncio.create_task(process.wait()) for process in running]
        if waits:
            await asyncio.wait(waits, timeout=STOP_TIMEOUT_S)
        for process in running:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if self._output_tasks:
            await asyncio.wait(self._output_tasks.values(), timeout=MAX_OUTPUT_DRAIN_S)


def _terminate(process: asyncio.subprocess.Process) -> None:
    """Send SIGTERM if the process still runs, whichever signal the supervisor received.

    A process that is still starting handles no other signal cleanly. A second SIGTERM ends the process at
    once.
    """
    if process.returncode is None:
        process.terminate()


def _describe_exit(name: str, code: int) -> str:
    """Return a sentence about the exit: the signal that killed the process, or its exit code."""
    if code < 0:
        return f"{name} was killed by {signal.Signals(-code).name}."
    return f"{name} exited with code {code}; its output is above."


def _describe_restarts(restarts: int) -> str:
    """Return a sentence about restarts that did not help, if there were any."""
    times = "once" if restarts == 1 else f"{restarts} times"
    return f" It was restarted {times} and ended each time within {STABLE_AFTER_S:g} s." if restarts else ""
