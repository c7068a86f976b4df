"""The portal's circuit on the document's table: opens at the threshold, admits one probe, closes by its success alone."""

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
from tests.unit.tripcortex.portal.portal_play import NOON, HandClock
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


def made(**terms: Any) -> PortalCircuit:
    return PortalCircuit(**{"threshold": THRESHOLD, "recovery_s": RECOVERY_S, "probe_s": PROBE_S, **terms})


def told(story: Story) -> None:
    async def run() -> None:
        clock = HandClock()
        async with open_memory_stores(clock=clock) as stores:
            await create_tables(stores, [circuits])
            await story(stores, clock)

    asyncio.run(run())


async def works() -> str:
    return "done"


async def fails() -> str:
    raise ExternalServiceFailed("502", may_be_done=False)


async def attempt(
    stores: Stores, function: Callable[[], Awaitable[str]] = works, circuit: PortalCircuit | None = None
) -> str:
    """How a call ended: done, failed or open."""
    try:
        return await (circuit or made()).call(stores, function)
    except ExternalServiceFailed:
        return "failed"
    except CircuitOpen:
        return "open"


async def broken(stores: Stores) -> None:
    for _ in range(THRESHOLD):
        assert await attempt(stores, fails) == "failed"


@pytest.mark.proves("TC-81")
@pytest.mark.proves("TC-87")
@pytest.mark.proves("TC-X14")
def test_failures_in_a_row_are_counted_with_their_time_and_a_success_forgets_them() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        assert await attempt(stores, fails) == "failed"
        clock.wait(5)
        assert await attempt(stores, fails) == "failed"
        seen = await made().get_circuit(stores)
        assert (seen.state, seen.failure_count) == (CircuitState.closed, 2)
        assert seen.last_failure_time == int(NOON.timestamp()) + 5
        assert (seen.recovery_timeout, seen.threshold) == (RECOVERY_S, THRESHOLD)
        assert await attempt(stores) == "done"
        assert (await made().get_circuit(stores)).failure_count == 0
        for _ in range(THRESHOLD - 1):
            assert await attempt(stores, fails) == "failed"
        assert await attempt(stores) == "done"

    told(story)


@pytest.mark.proves("TC-81")
@pytest.mark.proves("TC-86")
def test_one_item_of_the_documents_shape_is_all_that_is_kept() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        assert await attempt(stores) == "done"
        await broken(stores)
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

    told(story)


@pytest.mark.proves("TC-82")
def test_a_closed_circuit_is_opened_only_over_the_count_that_was_seen() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        for _ in range(THRESHOLD - 1):
            await attempt(stores, fails)
        at = int(clock.now())
        with pytest.raises(ConditionFailed):
            await stores.run(open_circuit(PORTAL_CIRCUIT, THRESHOLD, at, TERMS))
        await stores.run(open_circuit(PORTAL_CIRCUIT, THRESHOLD - 1, at, TERMS))
        with pytest.raises(ConditionFailed):
            await stores.run(open_circuit(PORTAL_CIRCUIT, THRESHOLD - 1, at, TERMS))
        # An older call that succeeds on an open circuit closes nothing.
        with pytest.raises(ConditionFailed):
            await stores.run(note_success(PORTAL_CIRCUIT, TERMS, NOON))

    told(story)


@pytest.mark.proves("TC-84")
def test_an_open_circuit_refuses_until_its_recovery_is_over_and_says_for_how_long() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        await broken(stores)
        clock.wait(RECOVERY_S - 1)
        with pytest.raises(CircuitOpen, match="book on its own pages") as refused:
            await made().call(stores, works)
        assert refused.value.retry_after_s == 1
        clock.wait(1)
        assert await attempt(stores, fails) == "failed"
        again = await made().get_circuit(stores)
        assert (again.state, again.failure_count) == (CircuitState.open, THRESHOLD + 1)
        assert await attempt(stores) == "open"
        clock.wait(RECOVERY_S)
        assert await attempt(stores) == "done"
        closed = await made().get_circuit(stores)
        assert (closed.state, closed.failure_count, closed.probe) == (CircuitState.closed, 0, None)

    told(story)


class InStep:
    """An engine whose first reads are answered when all callers have read: each decides on the same."""

    def __init__(self, under: Tables, callers: int) -> None:
        self._under, self._left, self._all_read = under, callers, asyncio.Event()

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
def test_of_sixteen_callers_that_saw_the_same_one_is_the_probe(is_deserted: bool) -> None:
    async def story(under: Stores, clock: HandClock) -> None:
        await broken(under)
        clock.wait(RECOVERY_S)
        if is_deserted:
            await made().guard(under).__aenter__()
            clock.wait(PROBE_S)
        stores = Stores(InStep(under.tables, 16), clock=clock)
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

    told(story)


@pytest.mark.proves("TC-82")
def test_failures_of_sixteen_callers_at_once_are_all_counted_and_open_it_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        circuit = made(threshold=16)
        ended = await asyncio.gather(*(attempt(stores, fails, circuit) for _ in range(16)))
        assert ended == ["failed"] * 16
        seen = await circuit.get_circuit(stores)
        assert (seen.state, seen.failure_count) == (CircuitState.open, 16)

    told(story)
    assert [each.getMessage() for each in caplog.records] == [
        f"The circuit {PORTAL_CIRCUIT} is open after 16 failures in a row."
    ]


@pytest.mark.proves("TC-X14")
def test_the_place_of_a_dead_probe_is_taken_when_its_lease_is_over() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        await broken(stores)
        clock.wait(RECOVERY_S)
        dead = made().guard(stores)
        await dead.__aenter__()
        clock.wait(PROBE_S - 1)
        with pytest.raises(CircuitOpen) as refused:
            await made().call(stores, works)
        assert refused.value.retry_after_s == 1
        clock.wait(1)
        assert await attempt(stores, fails) == "failed"
        # The first one wakes up, and its success says nothing any more.
        await dead.__aexit__(None, None, None)
        assert await attempt(stores) == "open"

    told(story)


def test_a_probe_that_is_cancelled_gives_its_place_back_at_once() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        await broken(stores)
        clock.wait(RECOVERY_S)
        began = asyncio.Event()

        async def endless() -> str:
            began.set()
            await asyncio.Event().wait()
            return "never"

        probe = asyncio.create_task(made().call(stores, endless))
        await began.wait()
        probe.cancel()
        with pytest.raises(asyncio.CancelledError):
            await probe
        assert await attempt(stores) == "done"

    told(story)


def test_a_refusal_shows_that_the_portal_answers() -> None:
    async def refuses() -> str:
        raise ExternalServiceRefused("sold_out", "no seat")

    async def story(stores: Stores, clock: HandClock) -> None:
        for _ in range(THRESHOLD - 1):
            await attempt(stores, fails)
        with pytest.raises(ExternalServiceRefused):
            await made().call(stores, refuses)
        assert (await made().get_circuit(stores)).failure_count == 0

    told(story)


@pytest.mark.proves("TC-X14")
def test_a_count_at_the_threshold_that_nobody_opened_is_opened_by_the_next_caller() -> None:
    """Whoever counted the last failure was killed before it could open the circuit."""

    async def story(stores: Stores, clock: HandClock) -> None:
        counted = made(threshold=THRESHOLD + 1)
        for _ in range(THRESHOLD):
            await attempt(stores, fails, counted)
        assert (await made().get_circuit(stores)).state is CircuitState.closed
        assert await attempt(stores) == "open"
        assert (await made().get_circuit(stores)).state is CircuitState.open

    told(story)


@pytest.mark.proves("TC-X15")
def test_the_end_of_life_is_set_anew_by_each_change_and_lies_beyond_the_recovery() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        ends: list[float] = []
        for function in (works, fails, fails, fails):
            clock.wait(7)
            await attempt(stores, function, made(recovery_s=3 * KEPT_S))
            seen = await made().get_circuit(stores)
            ends.append(seen.ttl.timestamp())
            assert seen.ttl.timestamp() > clock.now() + seen.recovery_timeout
        assert ends == sorted(set(ends))
        clock.wait(2 * KEPT_S)
        assert await attempt(stores, works, made(recovery_s=3 * KEPT_S)) == "open"

    told(story)


@pytest.mark.proves("TC-X15")
def test_no_item_is_a_closed_circuit_and_one_at_the_end_of_its_life_counts_anew() -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        assert await stores.run(circuit_state(PORTAL_CIRCUIT)) is None
        assert (await made().get_circuit(stores)).state is CircuitState.closed
        await broken(stores)
        clock.wait(3 * KEPT_S)
        assert await stores.run(circuit_state(PORTAL_CIRCUIT)) is None
        assert await attempt(stores, fails) == "failed"
        seen = await made().get_circuit(stores)
        assert (seen.state, seen.failure_count) == (CircuitState.closed, 1)
        clock.wait(3 * KEPT_S)
        assert await attempt(stores, fails) == "failed"
        assert (await made().get_circuit(stores)).failure_count == 1

    told(story)


def test_how_a_call_ended_is_given_also_where_it_cannot_be_written() -> None:
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
            assert await attempt(stores, fails) == "failed"

    asyncio.run(run())


# --- against a model ----------------------------------------------------------------------------------------


@dataclass
class Model:
    """What the circuit should be, in plain Python."""

    state: str = "closed"
    count: int = 0
    last: int = 0
    probe: int | None = None
    until: float = 0.0

    def begins(self, caller: int, now: float) -> str:
        if self.state == "closed":
            return "call"
        if now < (self.last + RECOVERY_S if self.state == "open" else self.until):
            return "refused"
        self.state, self.probe, self.until = "half_open", caller, now + PROBE_S
        return "probe"

    def ends(self, caller: int, role: str, how: str, now: float) -> None:
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
def test_callers_that_overlap_in_any_order_leave_the_circuit_as_the_model_says(
    events: list[tuple[str, int]],
) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        model = Model()
        under_way: list[tuple[int, str, AbstractAsyncContextManager[None]]] = []
        for number, (what, value) in enumerate(events):
            if what == "wait":
                clock.wait(value)
            elif what == "begin":
                expected = model.begins(number, clock.now())
                call: AbstractAsyncContextManager[None] = made().guard(stores)
                try:
                    await call.__aenter__()
                except CircuitOpen:
                    assert expected == "refused"
                else:
                    assert expected != "refused"
                    under_way.append((number, expected, call))
            elif under_way:
                caller, role, call = under_way.pop(value % len(under_way))
                model.ends(caller, role, what, clock.now())
                if what != "dies":
                    await _ended(call, what)
            seen = await made().get_circuit(stores)
            assert (seen.state, seen.failure_count) == (model.state, model.count)
            assert seen.last_failure_time == model.last
        for _, _, call in under_way:
            await _ended(call, "works")

    told(story)


async def _ended(call: AbstractAsyncContextManager[None], how: str) -> None:
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
def test_what_one_process_has_opened_is_open_for_the_next_one(tmp_path: Path) -> None:
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
