"""Several processes that live and end together, for `holdfast up`.

A signal to us is passed on to each, and we end when all have. When one ends by itself, the others are asked to
end too: half of what was started is worse than nothing. A worker is the exception, because nobody is in the middle of
a call to it and what it had in hand comes again: one that dies is started again after a pause that doubles. One that
does not stay alive ends the others, and one that ends by itself soon after its start does so at once.

What they say on standard output is passed on. Each says its first word when it is ready, and so we know when all are.
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

from holdfast.limits import SHUTDOWN_GRACE_S
from holdfast.runtime.workers import RECEIVE_WAIT_S, WORK_GRACE_S

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Longer than a server takes to answer what it accepted, and its workers to end what they have in hand.
END_SECONDS_MAX: Final = SHUTDOWN_GRACE_S + RECEIVE_WAIT_S + WORK_GRACE_S + 5

RESTARTS_MAX: Final = 5
RESTART_PAUSE_S: Final = 0.5
RESTART_PAUSE_S_MAX: Final = 30.0
# One that has lived for so long is not counted as dying again and again. One that ends by itself before, and is not
# killed, refuses to run, for a reason that starting it again does not mend.
SOUND_S: Final = 60.0
SAID_BYTES_AT_ONCE: Final = 65_536
LAST_WORDS_S_MAX: Final = 1.0


@dataclass(frozen=True)
class Child:
    """A process to start: what it is, in words, its command, and what it finds in its environment beside ours."""

    name: str
    command: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    # Started again when it dies.
    restarts: bool = False
    # Where people find it, if it is for them and known beforehand.
    url: str = ""


async def supervise(
    children: Sequence[Child],
    *,
    tell: Callable[[str], None] = lambda line: None,
    on_ready: Callable[[], None] = lambda: None,
    pause_s: float = RESTART_PAUSE_S,
) -> str | None:
    """Runs them until a signal, or until one ends for good. Then it is told which, and how. `on_ready` is called once, when
    all have said that they are ready.
    """
    family = _Family(tell, pause_s)
    family.on_ready(children, on_ready)
    loop = asyncio.get_running_loop()
    for each in SIGNALS:
        loop.add_signal_handler(each, family.pass_on)
    try:
        for child in children:
            await family.start(child)
        return await family.ended(children)
    finally:
        await family.end()
        for each in SIGNALS:
            loop.remove_signal_handler(each)


class _Family:
    """The processes that were started, by what they are."""

    def __init__(self, tell: Callable[[str], None], pause_s: float) -> None:
        self._tell, self._pause_s = tell, pause_s
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._is_ending = asyncio.Event()
        self._listening: set[asyncio.Task[None]] = set()
        self._silent: set[str] = set()
        self._on_ready: Callable[[], None] = lambda: None

    def on_ready(self, children: Sequence[Child], call: Callable[[], None]) -> None:
        self._silent, self._on_ready = {child.name for child in children}, call

    async def start(self, child: Child) -> None:
        if self._is_ending.is_set():
            return
        # In a group of its own, so that Ctrl-C in a terminal reaches it once, through us.
        started = await asyncio.create_subprocess_exec(
            *child.command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            process_group=0,
            env=os.environ | dict(child.variables),
        )
        self._processes[child.name] = started
        assert started.stdout is not None
        self._listening.add(asyncio.create_task(self._listen(child.name, started.stdout)))
        if self._is_ending.is_set():
            _ask_to_end(started)

    async def _listen(self, name: str, said: asyncio.StreamReader) -> None:
        while words := await said.read(SAID_BYTES_AT_ONCE):
            # Who started us may have stopped reading; the children are not to stand still over that.
            with suppress(OSError, ValueError):
                sys.stdout.buffer.write(words)
                sys.stdout.buffer.flush()
            if name in self._silent:
                self._silent.discard(name)
                if not self._silent:
                    self._on_ready()

    def pass_on(self) -> None:
        self._is_ending.set()
        for process in self._processes.values():
            _ask_to_end(process)

    async def ended(self, children: Sequence[Child]) -> str | None:
        """Waits for the first that ends for good, or for all after a signal."""
        begun = [child for child in children if child.name in self._processes]
        lives = {asyncio.create_task(self._life(child)): child.name for child in begun}
        try:
            while lives:
                done, _ = await asyncio.wait(lives, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    name = lives.pop(task)
                    if not self._is_ending.is_set() or task.result() > 0:
                        return _told(name, task.result())
            return None
        finally:
            for task in lives:
                task.cancel()

    async def _life(self, child: Child) -> int:
        """The exit code with which it ended for good."""
        restarts, now = 0, asyncio.get_running_loop().time
        while True:
            began = now()
            code = await self._processes[child.name].wait()
            lived_s = now() - began
            restarts = 0 if lived_s > SOUND_S else restarts
            refused = code >= 0 and lived_s < SOUND_S
            if self._is_ending.is_set() or not child.restarts or refused or restarts == RESTARTS_MAX:
                return code
            restarts += 1
            self._tell(f"{_told(child.name, code)} It is started again ({restarts} of {RESTARTS_MAX}).")
            if await self._rested(restarts):
                return 0
            await self.start(child)

    async def _rested(self, restarts: int) -> bool:
        """Waits before a restart; True if all are to end meanwhile."""
        pause_s = min(self._pause_s * 2 ** (restarts - 1), RESTART_PAUSE_S_MAX)
        try:
            await asyncio.wait_for(self._is_ending.wait(), pause_s)
        except TimeoutError:
            return False
        return True

    async def end(self) -> None:
        """Asks those that still run to end, and ends those that do not."""
        left = [process for process in self._processes.values() if process.returncode is None]
        for process in left:
            _ask_to_end(process)
        waits = [asyncio.create_task(process.wait()) for process in left]
        if waits:
            await asyncio.wait(waits, timeout=END_SECONDS_MAX)
        for process in left:
            if process.returncode is None:
                process.kill()
                await process.wait()
        if self._listening:
            # To the last word; a grandchild that outlives them may keep the pipe open.
            await asyncio.wait(self._listening, timeout=LAST_WORDS_S_MAX)


def _ask_to_end(process: asyncio.subprocess.Process) -> None:
    """By SIGTERM, whatever reached us: one that is only starting has no other tidy end. Twice means at once."""
    if process.returncode is None:
        process.terminate()


def _told(name: str, code: int) -> str:
    if code < 0:
        return f"{name} was ended by {signal.Signals(-code).name}."
    return f"{name} ended by itself with exit code {code}; what it said stands above."
