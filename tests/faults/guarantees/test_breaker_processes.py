"""A circuit breaker shared by eight processes: half-open, it admits one, and another if that is killed."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from holdfast import Stores
from holdfast.core.clock import RunClock
from holdfast.guarantees import BREAKERS
from holdfast.runtime import create_tables
from holdfast.stores.tables.embedded import open_tables
from tests.faults.guarantees.breaker_process import CLOCK, FAILURES, LEASE_S, RECOVERY_S
from tests.processes import Process, preload

CALLER = "tests.faults.guarantees.breaker_process"
CALLERS = 8
NOON = 1770206400.0

preload(CALLER)


@pytest.mark.proves("TC-83")
async def test_one_of_eight_processes_probes_and_is_replaced_when_killed(tmp_path: Path) -> None:
    clock = RunClock(tmp_path / CLOCK, start=NOON)
    await create_stores(tmp_path, clock)
    with ExitStack() as stack:
        callers = [stack.enter_context(start_caller(tmp_path)) for _ in range(CALLERS)]
        for caller in callers[:FAILURES]:
            assert make_call(caller, "fails") == ["calling", "ended"]
        assert call_all(callers) == ["refused"] * CALLERS

        clock.advance(RECOVERY_S)
        probe = find_probe(callers)
        probe.kill()
        rest = [each for each in callers if each is not probe]
        assert call_all(rest) == ["refused"] * len(rest)

        clock.advance(LEASE_S)
        second = find_probe(rest)
        second.send_line("works")
        assert read_line(second) == "ended"
        assert call_all(rest) == ["calling"] * len(rest)


def find_probe(callers: list[Process]) -> Process:
    """Let all call at once; check that one is admitted and return it."""
    for caller in callers:
        caller.send_line("call")
    said = [read_line(caller) for caller in callers]
    assert sorted(said) == ["calling", *["refused"] * (len(callers) - 1)]
    return callers[said.index("calling")]


def call_all(callers: list[Process]) -> list[str]:
    """Let all callers call at once; return the first line of each."""
    for caller in callers:
        caller.send_line("call")
    return [read_line(caller) for caller in callers]


def make_call(caller: Process, end: str) -> list[str]:
    """Make one call that ends as `end` says; return the two lines that the process prints."""
    caller.send_line("call")
    first = read_line(caller)
    caller.send_line(end)
    return [first, read_line(caller)]


def start_caller(folder: Path) -> Process:
    """Start a caller process and return it once it is ready."""
    caller = Process(CALLER, folder)
    assert caller.read_first_line() == "ready\n", caller.read_log()
    return caller


def read_line(caller: Process) -> str:
    return caller.stdout.readline().strip()


async def create_stores(folder: Path, clock: RunClock) -> None:
    with open_tables(folder / "tables.db", clock=clock) as tables:
        await create_tables(Stores(tables), [BREAKERS])
