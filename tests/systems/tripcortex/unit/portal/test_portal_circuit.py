"""The portal's circuit in the design document's form: what is stored, counted and kept, and a model of it.

The tests of the library's `Breaker` cover the rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Stores, open_memory_stores
from holdfast.core.errors import CircuitOpen, ConditionFailed, ExternalServiceFailed, ExternalServiceRefused
from holdfast.guarantees import Breaker
from holdfast.runtime import create_tables
from tests.systems.tripcortex.unit.portal.portal_bench import NOON, HandClock
from tripcortex.integrations.portal.circuit import PORTAL_CIRCUIT, build_breaker
from tripcortex.model.entities import CIRCUIT_KEPT_S, Circuit, CircuitState, circuits

THRESHOLD, RECOVERY_S, PROBE_S = 3, 60, 10


def make_breaker(**limits: Any) -> Breaker[Circuit]:
    return build_breaker(**{"failures": THRESHOLD, "recovery_s": RECOVERY_S, "lease_s": PROBE_S, **limits})


async def get_circuit(stores: Stores) -> Circuit:
    return await make_breaker().get_circuit(stores, PORTAL_CIRCUIT)


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
async def stores(clock: HandClock) -> AsyncIterator[Stores]:
    async with open_circuits(clock) as opened:
        yield opened


@asynccontextmanager
async def open_circuits(clock: HandClock) -> AsyncIterator[Stores]:
    async with open_memory_stores(clock=clock) as opened:
        await create_tables(opened, [circuits])
        yield opened


async def succeed() -> str:
    return "done"


async def fail() -> str:
    raise ExternalServiceFailed("502", may_be_done=False)


async def attempt(
    stores: Stores, function: Callable[[], Awaitable[str]] = succeed, breaker: Breaker[Circuit] | None = None
) -> str:
    """Make one call and return how it ended: done, failed or open."""
    try:
        return await (breaker or make_breaker()).call(stores, PORTAL_CIRCUIT, function)
    except ExternalServiceFailed:
        return "failed"
    except CircuitOpen:
        return "open"


async def open_by_failures(stores: Stores) -> None:
    """Fail as often as the threshold, so that the circuit opens."""
    for _ in range(THRESHOLD):
        assert await attempt(stores, fail) == "failed"


@pytest.mark.proves("TC-81", "TC-87", "TC-X14")
async def test_counts_consecutive_failures_and_resets_on_success(stores: Stores, clock: HandClock) -> None:
    assert await attempt(stores, fail) == "failed"
    clock.wait(5)
    assert await attempt(stores, fail) == "failed"
    seen = await get_circuit(stores)
    assert (seen.state, seen.failure_count) == (CircuitState.closed, 2)
    assert seen.last_failure_time == int(NOON.timestamp()) + 5
    assert (seen.recovery_timeout, seen.threshold) == (RECOVERY_S, THRESHOLD)
    assert await attempt(stores) == "done"
    assert (await get_circuit(stores)).failure_count == 0
    for _ in range(THRESHOLD - 1):
        assert await attempt(stores, fail) == "failed"
    assert await attempt(stores) == "done"


@pytest.mark.proves("TC-81", "TC-86", "TC-X3")
async def test_stores_one_item_of_the_documents_shape(stores: Stores) -> None:
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
        "ttl": int(NOON.timestamp()) + RECOVERY_S + PROBE_S + CIRCUIT_KEPT_S,
    }


@pytest.mark.proves("TC-82")
@pytest.mark.parametrize(
    "changed",
    [
        {"state": CircuitState.half_open},
        {"failure_count": THRESHOLD - 2},
        {"last_failure_time": 0},
        {"probe": "01KKBW6R000000000000000002"},
    ],
    ids=lambda changed: next(iter(changed)),
)
async def test_change_requires_the_circuit_that_was_read(stores: Stores, changed: dict[str, Any]) -> None:
    breaker = make_breaker()
    for _ in range(THRESHOLD - 1):
        await attempt(stores, fail)
    read = await get_circuit(stores)
    opened = read.with_failure(NOON, breaker.limits)
    assert opened.state is CircuitState.open
    with pytest.raises(ConditionFailed):
        await stores.run(breaker.pattern_set.change(opened, read.model_copy(update=changed)))
    await stores.run(breaker.pattern_set.change(opened, read))
    with pytest.raises(ConditionFailed):
        await stores.run(breaker.pattern_set.change(opened, read))


async def test_refusal_counts_as_a_success(stores: Stores) -> None:
    async def refuses() -> str:
        raise ExternalServiceRefused("sold_out", "no seat")

    for _ in range(THRESHOLD - 1):
        await attempt(stores, fail)
    with pytest.raises(ExternalServiceRefused):
        await make_breaker().call(stores, PORTAL_CIRCUIT, refuses)
    assert (await get_circuit(stores)).failure_count == 0


@pytest.mark.proves("TC-X15")
async def test_every_change_extends_the_ttl_beyond_the_recovery(stores: Stores, clock: HandClock) -> None:
    ends: list[float] = []
    for function in (succeed, fail, fail, fail):
        clock.wait(7)
        await attempt(stores, function, make_breaker(recovery_s=3 * CIRCUIT_KEPT_S))
        seen = await get_circuit(stores)
        ends.append(seen.ttl.timestamp())
        assert seen.ttl.timestamp() > clock.now() + seen.recovery_timeout
    assert ends == sorted(set(ends))
    clock.wait(2 * CIRCUIT_KEPT_S)
    assert await attempt(stores, succeed, make_breaker(recovery_s=3 * CIRCUIT_KEPT_S)) == "open"


@pytest.mark.proves("TC-X15")
async def test_missing_or_expired_item_is_a_closed_circuit(stores: Stores, clock: HandClock) -> None:
    assert await stores.run(make_breaker().pattern_set.state(PORTAL_CIRCUIT)) is None
    assert (await get_circuit(stores)).state is CircuitState.closed
    await open_by_failures(stores)
    clock.wait(3 * CIRCUIT_KEPT_S)
    assert await stores.run(make_breaker().pattern_set.state(PORTAL_CIRCUIT)) is None
    assert await attempt(stores, fail) == "failed"
    seen = await get_circuit(stores)
    assert (seen.state, seen.failure_count) == (CircuitState.closed, 1)
    clock.wait(3 * CIRCUIT_KEPT_S)
    assert await attempt(stores, fail) == "failed"
    assert (await get_circuit(stores)).failure_count == 1


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
            self.state, self.probe = "closed" if how == "works" else "open", None
            if how != "cancelled":
                self.count, self.last = (self.count + 1, int(now)) if how == "fails" else (0, self.last)


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


@pytest.mark.proves("TC-84", "TC-87")
@given(st.lists(EVENTS, min_size=5, max_size=40))
async def test_overlapping_callers_agree_with_the_model(events: list[tuple[str, int]]) -> None:
    model, clock = Model(), HandClock()
    under_way: list[tuple[int, str, AbstractAsyncContextManager[None]]] = []
    async with open_circuits(clock) as stores:
        for number, (what, value) in enumerate(events):
            if what == "wait":
                clock.wait(value)
            elif what == "begin":
                expected = model.begin(number, clock.now())
                call: AbstractAsyncContextManager[None] = make_breaker().guard(stores, PORTAL_CIRCUIT)
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
            seen = await get_circuit(stores)
            assert (seen.state, seen.failure_count) == (model.state, model.count)
            assert seen.last_failure_time == model.last
        for _, _, call in under_way:
            await end_call(call, "works")


async def end_call(call: AbstractAsyncContextManager[None], how: str) -> None:
    """Leave the guarded block as if its call had ended this way."""
    kind = ENDINGS[how]
    if kind is None:
        await call.__aexit__(None, None, None)
        return
    error = ExternalServiceFailed("502", may_be_done=False) if kind is ExternalServiceFailed else kind()
    assert not await call.__aexit__(kind, error, None)
