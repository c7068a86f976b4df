"""Several processes that live and end together, for `holdfast up`.

A signal to us is passed on to each, and we end when all have. When one ends by itself, the others are asked to
end too: half of what was started is worse than nothing.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from holdfast.limits import SHUTDOWN_GRACE_S

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Longer than a server takes to answer what it accepted.
END_SECONDS_MAX: Final = SHUTDOWN_GRACE_S + 5


@dataclass(frozen=True)
class Child:
    """A process to start: what it is, in words, and its command."""

    name: str
    command: tuple[str, ...]


async def supervise(children: Sequence[Child]) -> str | None:
    """Runs them until a signal, or until one ends by itself. Then it is told which, and how."""
    family = _Family()
    loop = asyncio.get_running_loop()
    for each in SIGNALS:
        loop.add_signal_handler(each, family.pass_on)
    try:
        for child in children:
            await family.start(child)
        return await family.ended()
    finally:
        await family.end()
        for each in SIGNALS:
            loop.remove_signal_handler(each)


class _Family:
    """The processes that were started, by what they are."""

    def __init__(self) -> None:
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._is_ending = asyncio.Event()

    async def start(self, child: Child) -> None:
        if self._is_ending.is_set():
            return
        # In a group of its own, so that Ctrl-C in a terminal reaches it once, through us.
        started = await asyncio.create_subprocess_exec(
            *child.command, stdin=asyncio.subprocess.DEVNULL, process_group=0
        )
        self._processes[child.name] = started
        if self._is_ending.is_set():
            _ask_to_end(started)

    def pass_on(self) -> None:
        self._is_ending.set()
        for process in self._processes.values():
            _ask_to_end(process)

    async def ended(self) -> str | None:
        """Waits for the first that ends by itself, or for all after a signal."""
        waits = {asyncio.create_task(each.wait(), name=name): name for name, each in self._processes.items()}
        try:
            while waits:
                done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    name = waits.pop(task)
                    if not self._is_ending.is_set() or task.result() > 0:
                        return _told(name, task.result())
            return None
        finally:
            for task in waits:
                task.cancel()

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


def _ask_to_end(process: asyncio.subprocess.Process) -> None:
    """By SIGTERM, whatever reached us: one that is only starting has no other tidy end. Twice means at once."""
    if process.returncode is None:
        process.terminate()


def _told(name: str, code: int) -> str:
    if code < 0:
        return f"{name} was ended by {signal.Signals(-code).name}."
    return f"{name} ended by itself with exit code {code}; what it said stands above."
