"""Eight processes on one file: a half-open circuit admits one of them, and when that one is killed, one more."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from holdfast import Stores, create_tables
from holdfast.core.clock import RunClock
from holdfast.guarantees import BREAKERS
from holdfast.stores.tables.embedded import open_tables
from tests.faults.breaker_process import CLOCK, FAILURES, PROBE_S, RECOVERY_S

ROOT = Path(__file__).parents[2]
CALLERS = 8
NOON = 1770206400.0


class Caller:
    """A process that calls when it is told to."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def tell(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()

    def said(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


def test_one_of_eight_processes_is_the_probe_and_when_it_is_killed_one_more(tmp_path: Path) -> None:
    clock = RunClock(tmp_path / CLOCK, start=NOON)
    asyncio.run(_prepared(tmp_path, clock))
    with ExitStack() as stack:
        callers = [stack.enter_context(_caller(tmp_path)) for _ in range(CALLERS)]
        for caller in callers[:FAILURES]:
            assert _end_of_call(caller, "fails") == ["calling", "ended"]
        assert _outcomes(callers) == ["refused"] * CALLERS

        clock.advance(RECOVERY_S)
        probe = _one_probe(callers)
        probe.process.kill()
        probe.process.wait()
        rest = [each for each in callers if each is not probe]
        assert _outcomes(rest) == ["refused"] * len(rest)

        clock.advance(PROBE_S)
        second = _one_probe(rest)
        second.tell("works")
        assert second.said() == "ended"
        assert _outcomes(rest) == ["calling"] * len(rest)


def _one_probe(callers: list[Caller]) -> Caller:
    """All call at once, and one gets through."""
    for caller in callers:
        caller.tell("call")
    said = [caller.said() for caller in callers]
    assert sorted(said) == ["calling", *["refused"] * (len(callers) - 1)]
    return callers[said.index("calling")]


def _outcomes(callers: list[Caller]) -> list[str]:
    for caller in callers:
        caller.tell("call")
    return [caller.said() for caller in callers]


def _end_of_call(caller: Caller, end: str) -> list[str]:
    caller.tell("call")
    first = caller.said()
    caller.tell(end)
    return [first, caller.said()]


@contextmanager
def _caller(folder: Path) -> Iterator[Caller]:
    command = [sys.executable, "-m", "tests.faults.breaker_process", str(folder)]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    caller = Caller(process)
    try:
        assert caller.said() == "ready"
        yield caller
    finally:
        process.kill()
        with process:
            pass


async def _prepared(folder: Path, clock: RunClock) -> None:
    with open_tables(folder / "tables.db", clock=clock) as tables:
        await create_tables(Stores(tables), [BREAKERS])
