"""D13 and D14, and the one probe, as the store itself decides them."""

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

from .conftest import HandClock, Played

THRESHOLD, RECOVERY_S, PROBE_S = 4, 60, 10


def made() -> PortalCircuit:
    return PortalCircuit(threshold=THRESHOLD, recovery_s=RECOVERY_S, probe_s=PROBE_S)


async def fails() -> None:
    raise ExternalServiceFailed("502", may_be_done=False)


async def broken(stores: Stores) -> None:
    """Each caller with a circuit of its own, as processes have them."""
    for _ in range(THRESHOLD):
        with pytest.raises(ExternalServiceFailed):
            await made().call(stores, fails)


async def works() -> None:
    return None


@pytest.mark.proves("TC-81")
@pytest.mark.proves("TC-82")
@pytest.mark.proves("TC-83")
@pytest.mark.proves("TC-85")
def test_failures_of_all_callers_open_the_circuit_over_the_count_that_was_seen(played: Played) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        assert await stores.run(circuit_state(PORTAL_CIRCUIT)) is None
        await made().call(stores, works)
        await broken(stores)
        seen = await made().get_circuit(stores)
        assert (seen.state, seen.failure_count) == (CircuitState.open, THRESHOLD)
        assert seen.last_failure_time == int(clock.now())
        assert seen.ttl.timestamp() > clock.now() + seen.recovery_timeout
        terms = Terms(THRESHOLD, RECOVERY_S, seen.ttl)
        with pytest.raises(ConditionFailed):
            await stores.run(open_circuit(PORTAL_CIRCUIT, THRESHOLD, int(clock.now()), terms))

    played(story)


@pytest.mark.proves("TC-84")
@pytest.mark.proves("TC-X14")
def test_one_caller_is_the_probe_and_its_place_is_taken_when_it_is_gone(played: Played) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        await broken(stores)
        clock.moment += RECOVERY_S
        gone = made().guard(stores)
        await gone.__aenter__()
        with pytest.raises(CircuitOpen):
            await made().call(stores, works)
        clock.moment += PROBE_S
        with pytest.raises(ExternalServiceFailed):
            await made().call(stores, fails)
        # The first wakes up, and its success says nothing any more.
        await gone.__aexit__(None, None, None)
        assert (await made().get_circuit(stores)).state is CircuitState.open
        clock.moment += RECOVERY_S
        await made().call(stores, works)
        seen = await made().get_circuit(stores)
        assert (seen.state, seen.failure_count, seen.probe) == (CircuitState.closed, 0, None)

    played(story)


@pytest.mark.proves("TC-82")
@pytest.mark.proves("TC-84")
def test_callers_at_once_are_all_counted_and_one_of_them_is_the_probe(played: Played) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        failing = (made().call(stores, fails) for _ in range(THRESHOLD))
        ended = await asyncio.gather(*failing, return_exceptions=True)
        assert [type(each) for each in ended] == [ExternalServiceFailed] * THRESHOLD
        seen = await made().get_circuit(stores)
        assert (seen.state, seen.failure_count) == (CircuitState.open, THRESHOLD)
        clock.moment += RECOVERY_S
        calls = [made().guard(stores) for _ in range(8)]

        async def is_admitted(call: AbstractAsyncContextManager[None]) -> bool:
            try:
                await call.__aenter__()
            except CircuitOpen:
                return False
            return True

        admitted = await asyncio.gather(*map(is_admitted, calls))
        assert admitted.count(True) == 1
        await calls[admitted.index(True)].__aexit__(None, None, None)
        assert (await made().get_circuit(stores)).state is CircuitState.closed

    played(story)


@pytest.mark.proves("TC-83")
def test_a_clock_that_is_set_back_keeps_nobody_away_for_longer_than_two_recoveries(played: Played) -> None:
    async def story(stores: Stores, clock: HandClock) -> None:
        await broken(stores)
        clock.moment -= RECOVERY_S
        with pytest.raises(CircuitOpen) as early:
            await made().call(stores, works)
        assert early.value.retry_after_s == 2 * RECOVERY_S
        clock.moment -= 86_400
        left = made().guard(stores)
        await left.__aenter__()
        with pytest.raises(CircuitOpen):
            await made().call(stores, works)
        # So it is with a probe that nobody ends.
        clock.moment -= 86_400
        await made().call(stores, works)
        assert (await made().get_circuit(stores)).state is CircuitState.closed

    played(story)
