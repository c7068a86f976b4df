"""A circuit breaker shared by eight processes: half-open, it admits one, and another if that is killed."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from holdfast import Stores
from holdfast.core.clock import RunClock
from holdfast.guarantees import BREAKERS
from holdfast.runtime import create_tables
from holdfast.stores.tables.embedded import open_tables
from tests.faults.guarantees.breaker_process import CLOCK, FAILURES, LEASE_S, RECOVERY_S

ROOT = Path(__file__).parents[3]
CALLERS = 8
NOON = 1770206400.0


class Caller:
    """A process that makes a call on request."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def send(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{word}\n")
        self.process.stdin.flush()

    def read_line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()


@pytest.mark.proves("TC-83")
def test_one_of_eight_processes_probes_and_is_replaced_when_killed(tmp_path: Path) -> None:
    clock = RunClock(tmp_path / CLOCK, start=NOON)
    asyncio.run(create_stores(tmp_path, clock))
    with ExitStack() as stack:
        callers = [stack.enter_context(start_caller(tmp_path)) for _ in range(CALLERS)]
        for caller in callers[:FAILURES]:
            assert make_call(caller, "fails") == ["calling", "ended"]
        assert call_all(callers) == ["refused"] * CALLERS

        clock.advance(RECOVERY_S)
        probe = find_probe(callers)
        probe.process.kill()
        probe.process.wait()
        rest = [each for each in callers if each is not probe]
        assert call_all(rest) == ["refused"] * len(rest)

        clock.advance(LEASE_S)
        second = find_probe(rest)
        second.send("works")
        assert second.read_line() == "ended"
        assert call_all(rest) == ["calling"] * len(rest)


def find_probe(callers: list[Caller]) -> Caller:
    """Let all call at once; check that one is admitted and return it."""
    for caller in callers:
        caller.send("call")
    said = [caller.read_line() for caller in callers]
    assert sorted(said) == ["calling", *["refused"] * (len(callers) - 1)]
    return callers[said.index("calling")]


def call_all(callers: list[Caller]) -> list[str]:
    """Let all callers call at once; return the first line of each."""
    for caller in callers:
        caller.send("call")
    return [caller.read_line() for caller in callers]


def make_call(caller: Caller, end: str) -> list[str]:
    """Make one call that ends as `end` says; return the two lines that the process prints."""
    caller.send("call")
    first = caller.read_line()
    caller.send(end)
    return [first, caller.read_line()]


@contextmanager
def start_caller(folder: Path) -> Iterator[Caller]:
    """Start a caller process, yield it once it is ready, and kill it after the block."""
    command = [sys.executable, "-m", "tests.faults.guarantees.breaker_process", str(folder)]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    caller = Caller(process)
    try:
        assert caller.read_line() == "ready"
        yield caller
    finally:
        process.kill()
        with process:
            pass


async def create_stores(folder: Path, clock: RunClock) -> None:
    with open_tables(folder / "tables.db", clock=clock) as tables:
        await create_tables(Stores(tables), [BREAKERS])
