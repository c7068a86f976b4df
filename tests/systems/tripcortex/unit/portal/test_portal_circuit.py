"""Tests of the portal's circuit breaker in memory: threshold, single probe, closing, and a model.

It opens at the threshold, admits one probe, and closes only on its success.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast import Stores, create_tables, open_memory_stores
from holdfast.core.clock import RunClock
from holdfast.core.errors import (
    CircuitOpen,
    ConditionFailed,
    ExternalServiceFailed,
    ExternalServiceRefused,
    StoreUnreachable,
)
from holdfast.operations.tables import GetItem, UpdateItem
from holdfast.stores.tables.embedded import open_tables
from holdfast.stores.tables.port import Tables
from tests.systems.tripcortex.unit.portal.portal_bench import NOON, HandClock
from tripcortex.integrations.portal.circuit import (
    KEPT_S,
    PORTAL_CIRCUIT,
    PortalCircuit,
    Terms,
    circuit_state,
    note_success,
    open_circuit,
)
from tripcortex.model.entities import Circuit, CircuitState, circuits

THRESHOLD, RECOVERY_S, PROBE_S = 3, 60, 10
TERMS = Terms(THRESHOLD, RECOVERY_S, datetime(2026, 3, 12, tzinfo=UTC))

Story = Callable[[Stores, HandClock], Awaitable[None]]


def make_circuit(**terms: Any) -> PortalCircuit:
    return PortalCircuit(**{"threshold": THRESHOLD, "recovery_s": RECOVERY_S, "probe_s": PROBE_S, **terms})


def run_story(story: Story) -> None:
    """Run an async test with stores in memory and a manual clock."""

    async def run() -> None:
        clock = HandClock()
        async with open_memory_stores(clock=clock) as stores:
            await create_tables(stores, [circuits])
            await story(stores, clock)

    asyncio.run(run())


async def succeed() -> str:
    return "done"


async def fail() -> str:
    raise ExternalServiceFailed("502", may_be_done=False)


async def attempt(
    stores: Stores, function: Callable[[], Awaitable[str]] = succeed, circuit: PortalCircuit | None = None
) -> str:
    """Make one call and return how it ended: done, failed or open."""
    try:
        return await (circuit or make_circuit()).call(stores, function)
    except ExternalServiceFailed:
        return "failed"
    except CircuitOpen:
        return "open"


async def open_by_failures(stores: Stores) -> None:
    """Fail as often as the threshold, so that the circuit opens."""
    for _ in range(THRESHOLD):
        assert await attempt(stores, fail) == "failed"


@pytest.mark.proves("TC-81")
@pytest.mark.proves("TC-87")
@pytest.mark.proves("TC-X14")
def test_counts_consecutive_failures_and_resets_on_success() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        assert await attempt(stores, fail) == "failed"
        clock.wait(5)
        assert await attempt(stores, fail) == "failed"
        seen = await make_circuit().get_circuit(stores)
        assert (seen.state, seen.failure_count) == (CircuitState.closed, 2)
        assert seen.last_failure_time == int(NOON.timestamp()) + 5
        assert (seen.recovery_timeout, seen.threshold) == (RECOVERY_S, THRESHOLD)
        assert await attempt(stores) == "done"
        assert (await make_circuit().get_circuit(stores)).failure_count == 0
        for _ in range(THRESHOLD - 1):
            assert await attempt(stores, fail) == "failed"
        assert await attempt(stores) == "done"

    run_story(story)


@pytest.mark.proves("TC-81")
@pytest.mark.proves("TC-86")
def test_stores_one_item_of_the_documents_shape() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        assert await attempt(stores) == "done"
        await open_by_failures(stores)
        kept = await stores.all(Circuit.scan(reason="a test reads its whole table"))
        assert len(kept) == 1
        assert Circuit.put(kept[0]).build_item() == {
            "circuitId": PORTAL_CIRCUIT,
            "state": "open",
            "failureCount": THRESHOLD,
            "lastFailureTime": int(NOON.timestamp()),
            "recoveryTimeout": RECOVERY_S,
            "threshold": THRESHOLD,
            "ttl": int(NOON.timestamp()) + RECOVERY_S + PROBE_S + KEPT_S,
        }

    run_story(story)


@pytest.mark.proves("TC-82")
def test_opening_requires_the_failure_count_that_was_read() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        for _ in range(THRESHOLD - 1):
            await attempt(stores, fail)
        at = int(clock.now())
        with pytest.raises(ConditionFailed):
            await stores.run(open_circuit(PORTAL_CIRCUIT, THRESHOLD, at, TERMS))
        await stores.run(open_circuit(PORTAL_CIRCUIT, THRESHOLD - 1, at, TERMS))
        with pytest.raises(ConditionFailed):
            await stores.run(open_circuit(PORTAL_CIRCUIT, THRESHOLD - 1, at, TERMS))
        # The success of an older call does not close an open circuit.
        with pytest.raises(ConditionFailed):
            await stores.run(note_success(PORTAL_CIRCUIT, TERMS, NOON))

    run_story(story)


@pytest.mark.proves("TC-84")
def test_open_circuit_refuses_until_recovery_and_says_how_long() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        await open_by_failures(stores)
        clock.wait(RECOVERY_S - 1)
        with pytest.raises(CircuitOpen, match="book on its own pages") as refused:
            await make_circuit().call(stores, succeed)
        assert refused.value.retry_after_s == 1
        clock.wait(1)
        assert await attempt(stores, fail) == "failed"
        again = await make_circuit().get_circuit(stores)
        assert (again.state, again.failure_count) == (CircuitState.open, THRESHOLD + 1)
        assert await attempt(stores) == "open"
        clock.wait(RECOVERY_S)
        assert await attempt(stores) == "done"
        closed = await make_circuit().get_circuit(stores)
        assert (closed.state, closed.failure_count, closed.probe) == (CircuitState.closed, 0, None)

    run_story(story)


class SynchronizedReads:
    """An engine that answers the first reads when all callers have read, so that all see the same state."""

    def __init__(self, tables: Tables, callers: int) -> None:
        self._under, self._left, self._all_read = tables, callers, asyncio.Event()

    async def run(self, operation: Any) -> Any:
        answer = await self._under.run(operation)
        if isinstance(operation, GetItem):
            self._left -= 1
            if self._left == 0:
                self._all_read.set()
            await self._all_read.wait()
        return answer


@pytest.mark.proves("TC-84")
@pytest.mark.proves("TC-X14")
@pytest.mark.parametrize("is_deserted", [False, True], ids=["recovered", "its probe is gone"])
def test_one_of_sixteen_concurrent_callers_is_the_probe(is_deserted: bool) -> None:
    async def story(under: Stores, clock: HandClock) -> None:
        await open_by_failures(under)
        clock.wait(RECOVERY_S)
        if is_deserted:
            await make_circuit().guard(under).__aenter__()
            clock.wait(PROBE_S)
        stores = Stores(SynchronizedReads(under.tables, 16), clock=clock)
        may_end, probes = asyncio.Event(), 0

        async def slow() -> str:
            nonlocal probes
            probes += 1
            await may_end.wait()
            return "done"

        calls = [asyncio.create_task(attempt(stores, slow)) for _ in range(16)]
        waiting = set(calls)
        while len(waiting) > 1 and probes < 2:
            _, waiting = await asyncio.wait(waiting, timeout=0.05, return_when=asyncio.FIRST_COMPLETED)
        may_end.set()
        assert sorted([await call for call in calls]) == ["done", *["open"] * 15]
        assert probes == 1

    run_story(story)


@pytest.mark.proves("TC-82")
def test_counts_all_concurrent_failures_and_opens_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        circuit = make_circuit(threshold=16)
        ended = await asyncio.gather(*(attempt(stores, fail, circuit) for _ in range(16)))
        assert ended == ["failed"] * 16
        seen = await circuit.get_circuit(stores)
        assert (seen.state, seen.failure_count) == (CircuitState.open, 16)

    run_story(story)
    assert [each.getMessage() for each in caplog.records] == [
        f"The circuit {PORTAL_CIRCUIT} is open after 16 failures in a row."
    ]


@pytest.mark.proves("TC-X14")
def test_dead_probe_is_replaced_after_its_lease() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        await open_by_failures(stores)
        clock.wait(RECOVERY_S)
        dead = make_circuit().guard(stores)
        await dead.__aenter__()
        clock.wait(PROBE_S - 1)
        with pytest.raises(CircuitOpen) as refused:
            await make_circuit().call(stores, succeed)
        assert refused.value.retry_after_s == 1
        clock.wait(1)
        assert await attempt(stores, fail) == "failed"
        # The first probe wakes up too late: its success is ignored.
        await dead.__aexit__(None, None, None)
        assert await attempt(stores) == "open"

    run_story(story)


def test_cancelled_probe_releases_its_slot() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        await open_by_failures(stores)
        clock.wait(RECOVERY_S)
        began = asyncio.Event()

        async def endless() -> str:
            began.set()
            await asyncio.Event().wait()
            return "never"

        probe = asyncio.create_task(make_circuit().call(stores, endless))
        await began.wait()
        probe.cancel()
        with pytest.raises(asyncio.CancelledError):
            await probe
        assert await attempt(stores) == "done"

    run_story(story)


def test_refusal_counts_as_a_success() -> None:
    async def refuses() -> str:
        raise ExternalServiceRefused("sold_out", "no seat")

    async def story(stores: Stores, clock: HandClock) -> None:
        for _ in range(THRESHOLD - 1):
            await attempt(stores, fail)
        with pytest.raises(ExternalServiceRefused):
            await make_circuit().call(stores, refuses)
        assert (await make_circuit().get_circuit(stores)).failure_count == 0

    run_story(story)


@pytest.mark.proves("TC-X14")
def test_next_caller_opens_a_circuit_left_at_the_threshold() -> None:
    """The caller that counted the last failure was killed before it opened the circuit."""

    async def story(stores: Stores, clock: HandClock) -> None:
        counted = make_circuit(threshold=THRESHOLD + 1)
        for _ in range(THRESHOLD):
            await attempt(stores, fail, counted)
        assert (await make_circuit().get_circuit(stores)).state is CircuitState.closed
        assert await attempt(stores) == "open"
        assert (await make_circuit().get_circuit(stores)).state is CircuitState.open

    run_story(story)


@pytest.mark.proves("TC-X15")
def test_every_change_extends_the_ttl_beyond_the_recovery() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        ends: list[float] = []
        for function in (succeed, fail, fail, fail):
            clock.wait(7)
            await attempt(stores, function, make_circuit(recovery_s=3 * KEPT_S))
            seen = await make_circuit().get_circuit(stores)
            ends.append(seen.ttl.timestamp())
            assert seen.ttl.timestamp() > clock.now() + seen.recovery_timeout
        assert ends == sorted(set(ends))
        clock.wait(2 * KEPT_S)
        assert await attempt(stores, succeed, make_circuit(recovery_s=3 * KEPT_S)) == "open"

    run_story(story)


@pytest.mark.proves("TC-X15")
def test_missing_or_expired_item_is_a_closed_circuit() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        assert await stores.run(circuit_state(PORTAL_CIRCUIT)) is None
        assert (await make_circuit().get_circuit(stores)).state is CircuitState.closed
        await open_by_failures(stores)
        clock.wait(3 * KEPT_S)
        assert await stores.run(circuit_state(PORTAL_CIRCUIT)) is None
        assert await attempt(stores, fail) == "failed"
        seen = await make_circuit().get_circuit(stores)
        assert (seen.state, seen.failure_count) == (CircuitState.closed, 1)
        clock.wait(3 * KEPT_S)
        assert await attempt(stores, fail) == "failed"
        assert (await make_circuit().get_circuit(stores)).failure_count == 1

    run_story(story)


def test_returns_the_outcome_even_if_it_cannot_be_stored() -> None:
    async def run() -> None:
        clock = HandClock()
        async with open_memory_stores(clock=clock) as under:
            await create_tables(under, [circuits])

            class Deaf:
                async def run(self, operation: Any) -> Any:
                    if isinstance(operation, UpdateItem):
                        raise StoreUnreachable("no connection")
                    return await under.tables.run(operation)

            stores = Stores(Deaf(), clock=clock)
            assert await attempt(stores) == "done"
            assert await attempt(stores, fail) == "failed"

    asyncio.run(run())


# --- against a model ----------------------------------------------------------------------------------------


@dataclass
class Model:
    """Expected behaviour of the circuit, in plain Python."""

    state: str = "closed"
    count: int = 0
    last: int = 0
    probe: int | None = None
    until: float = 0.0

    def begin(self, caller: int, now: float) -> str:
        """Return how the caller is admitted: call, probe or refused."""
        if self.state == "closed":
            return "call"
        if now < (self.last + RECOVERY_S if self.state == "open" else self.until):
            return "refused"
        self.state, self.probe, self.until = "half_open", caller, now + PROBE_S
        return "probe"

    def end(self, caller: int, role: str, how: str, now: float) -> None:
        """Apply how the caller's call ended: works, fails, cancelled or dies."""
        if how == "dies":
            return
        if role == "call":
            if self.state == "closed" and how != "cancelled":
                self.count = self.count + 1 if how == "fails" else 0
                self.last = int(now) if how == "fails" else self.last
                self.state = "open" if self.count >= THRESHOLD else "closed"
        elif self.state == "half_open" and self.probe == caller:
            if how == "cancelled":
                self.until = 0.0
            else:
                self.state = "open" if how == "fails" else "closed"
                self.count, self.last = (self.count + 1, int(now)) if how == "fails" else (0, self.last)
                self.probe = None


ENDINGS: dict[str, type[BaseException] | None] = {
    "works": None,
    "fails": ExternalServiceFailed,
    "cancelled": asyncio.CancelledError,
    "dies": None,
}
EVENTS = st.one_of(
    st.tuples(st.just("begin"), st.just(0)),
    st.tuples(st.just("wait"), st.sampled_from([1, PROBE_S, RECOVERY_S])),
    *(st.tuples(st.just(how), st.integers(0, 5)) for how in ("works", "fails", "fails", "cancelled", "dies")),
)


@pytest.mark.proves("TC-84")
@pytest.mark.proves("TC-87")
@settings(max_examples=60, deadline=None)
@given(st.lists(EVENTS, min_size=5, max_size=40))
def test_overlapping_callers_agree_with_the_model(
    events: list[tuple[str, int]],
) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        model = Model()
        under_way: list[tuple[int, str, AbstractAsyncContextManager[None]]] = []
        for number, (what, value) in enumerate(events):
            if what == "wait":
                clock.wait(value)
            elif what == "begin":
                expected = model.begin(number, clock.now())
                call: AbstractAsyncContextManager[None] = make_circuit().guard(stores)
                try:
                    await call.__aenter__()
                except CircuitOpen:
                    assert expected == "refused"
                else:
                    assert expected != "refused"
                    under_way.append((number, expected, call))
            elif under_way:
                caller, role, call = under_way.pop(value % len(under_way))
                model.end(caller, role, what, clock.now())
                if what != "dies":
                    await end_call(call, what)
            seen = await make_circuit().get_circuit(stores)
            assert (seen.state, seen.failure_count) == (model.state, model.count)
            assert seen.last_failure_time == model.last
        for _, _, call in under_way:
            await end_call(call, "works")

    run_story(story)


async def end_call(call: AbstractAsyncContextManager[None], how: str) -> None:
    """Leave the guarded block as if its call had ended this way."""
    kind = ENDINGS[how]
    if kind is None:
        await call.__aexit__(None, None, None)
        return
    error = ExternalServiceFailed("502", may_be_done=False) if kind is ExternalServiceFailed else kind()
    assert not await call.__aexit__(kind, error, None)


# --- between processes --------------------------------------------------------------------------------------

FAILING = """
import asyncio, sys
from pathlib import Path
from holdfast import Stores
from holdfast.core.clock import RunClock
from holdfast.core.errors import ExternalServiceFailed
from holdfast.stores.tables.embedded import open_tables
from holdfast.stores.tables.port import Tables
from tripcortex.integrations.portal.circuit import PortalCircuit

async def failing(stores):
    for _ in range(int(sys.argv[3])):
        try:
            async with PortalCircuit(threshold=int(sys.argv[3])).guard(stores):
                raise ExternalServiceFailed("502", may_be_done=False)
        except ExternalServiceFailed:
            pass

clock = RunClock(Path(sys.argv[2]))
with open_tables(Path(sys.argv[1]), clock=clock) as tables:
    asyncio.run(failing(Stores(tables, clock=clock)))
"""


@pytest.mark.proves("TC-83")
def test_circuit_stays_open_for_the_next_process(tmp_path: Path) -> None:
    file, clock = tmp_path / "tables.db", RunClock(tmp_path / "clock", start=NOON.timestamp())
    with open_tables(file, clock=clock) as tables:
        asyncio.run(create_tables(Stores(tables, clock=clock), [circuits]))
    command = [sys.executable, "-c", FAILING, str(file), str(tmp_path / "clock"), str(THRESHOLD)]
    subprocess.run(command, check=True, timeout=60)
    with open_tables(file, clock=clock) as tables:
        stores = Stores(tables, clock=clock)
        assert asyncio.run(attempt(stores)) == "open"
        clock.advance(RECOVERY_S)
        assert asyncio.run(attempt(stores)) == "done"
