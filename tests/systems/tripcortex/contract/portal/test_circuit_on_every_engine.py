"""Contract tests of the circuit breaker on every tables engine: patterns D13 and D14 and the single probe."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager

import pytest

from holdfast import Stores
from holdfast.core.errors import CircuitOpen, ConditionFailed, ExternalServiceFailed
from tripcortex.integrations.portal.circuit import (
    PORTAL_CIRCUIT,
    PortalCircuit,
    Terms,
    circuit_state,
    open_circuit,
)
from tripcortex.model.entities import CircuitState

from .conftest import HandClock, RunStory

THRESHOLD, RECOVERY_S, PROBE_S = 4, 60, 10


def make_circuit() -> PortalCircuit:
    return PortalCircuit(threshold=THRESHOLD, recovery_s=RECOVERY_S, probe_s=PROBE_S)


async def fail() -> None:
    raise ExternalServiceFailed("502", may_be_done=False)


async def open_by_failures(stores: Stores) -> None:
    """Fail until the circuit opens; each caller has its own circuit object, as processes do."""
    for _ in range(THRESHOLD):
        with pytest.raises(ExternalServiceFailed):
            await make_circuit().call(stores, fail)


async def succeed() -> None:
    return None


@pytest.mark.proves("TC-81")
@pytest.mark.proves("TC-82")
@pytest.mark.proves("TC-83")
@pytest.mark.proves("TC-85")
def test_failures_of_all_callers_open_the_circuit(run_story: RunStory) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        assert await stores.run(circuit_state(PORTAL_CIRCUIT)) is None
        await make_circuit().call(stores, succeed)
        await open_by_failures(stores)
        seen = await make_circuit().get_circuit(stores)
        assert (seen.state, seen.failure_count) == (CircuitState.open, THRESHOLD)
        assert seen.last_failure_time == int(clock.now())
        assert seen.ttl.timestamp() > clock.now() + seen.recovery_timeout
        terms = Terms(THRESHOLD, RECOVERY_S, seen.ttl)
        with pytest.raises(ConditionFailed):
            await stores.run(open_circuit(PORTAL_CIRCUIT, THRESHOLD, int(clock.now()), terms))

    run_story(story)


@pytest.mark.proves("TC-84")
@pytest.mark.proves("TC-X14")
def test_one_caller_probes_and_a_dead_probe_is_replaced(run_story: RunStory) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        await open_by_failures(stores)
        clock.moment += RECOVERY_S
        gone = make_circuit().guard(stores)
        await gone.__aenter__()
        with pytest.raises(CircuitOpen):
            await make_circuit().call(stores, succeed)
        clock.moment += PROBE_S
        with pytest.raises(ExternalServiceFailed):
            await make_circuit().call(stores, fail)
        # The first probe wakes up too late: its success is ignored.
        await gone.__aexit__(None, None, None)
        assert (await make_circuit().get_circuit(stores)).state is CircuitState.open
        clock.moment += RECOVERY_S
        await make_circuit().call(stores, succeed)
        seen = await make_circuit().get_circuit(stores)
        assert (seen.state, seen.failure_count, seen.probe) == (CircuitState.closed, 0, None)

    run_story(story)


@pytest.mark.concurrent
@pytest.mark.proves("TC-82")
@pytest.mark.proves("TC-84")
def test_counts_all_concurrent_callers_and_admits_one_probe(run_story: RunStory) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        failing = (make_circuit().call(stores, fail) for _ in range(THRESHOLD))
        ended = await asyncio.gather(*failing, return_exceptions=True)
        assert [type(each) for each in ended] == [ExternalServiceFailed] * THRESHOLD
        seen = await make_circuit().get_circuit(stores)
        assert (seen.state, seen.failure_count) == (CircuitState.open, THRESHOLD)
        clock.moment += RECOVERY_S
        calls = [make_circuit().guard(stores) for _ in range(8)]

        async def is_admitted(call: AbstractAsyncContextManager[None]) -> bool:
            try:
                await call.__aenter__()
            except CircuitOpen:
                return False
            return True

        admitted = await asyncio.gather(*map(is_admitted, calls))
        assert admitted.count(True) == 1
        await calls[admitted.index(True)].__aexit__(None, None, None)
        assert (await make_circuit().get_circuit(stores)).state is CircuitState.closed

    run_story(story)


@pytest.mark.proves("TC-83")
def test_clock_set_back_blocks_for_at_most_two_recoveries(run_story: RunStory) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        await open_by_failures(stores)
        clock.moment -= RECOVERY_S
        with pytest.raises(CircuitOpen) as early:
            await make_circuit().call(stores, succeed)
        assert early.value.retry_after_s == 2 * RECOVERY_S
        clock.moment -= 86_400
        left = make_circuit().guard(stores)
        await left.__aenter__()
        with pytest.raises(CircuitOpen):
            await make_circuit().call(stores, succeed)
        # The same holds for a probe that never ends.
        clock.moment -= 86_400
        await make_circuit().call(stores, succeed)
        assert (await make_circuit().get_circuit(stores)).state is CircuitState.closed

    run_story(story)
