"""The portal's circuit on every tables engine: patterns D13 and D14 and the single probe."""

from __future__ import annotations

import pytest

from holdfast import Stores
from holdfast.core.errors import CircuitOpen, ConditionFailed, ExternalServiceFailed
from tripcortex.integrations.portal.circuit import PORTAL_CIRCUIT, build_breaker
from tripcortex.model.entities import CircuitState

from .conftest import HandClock

THRESHOLD, RECOVERY_S, PROBE_S = 4, 60, 10
BREAKER = build_breaker(failures=THRESHOLD, recovery_s=RECOVERY_S, lease_s=PROBE_S)


async def fail() -> None:
    raise ExternalServiceFailed("502", may_be_done=False)


async def open_by_failures(stores: Stores) -> None:
    """Fail until the circuit opens."""
    for _ in range(THRESHOLD):
        with pytest.raises(ExternalServiceFailed):
            await BREAKER.call(stores, PORTAL_CIRCUIT, fail)


async def succeed() -> None:
    return None


@pytest.mark.proves("TC-81", "TC-82", "TC-83", "TC-85")
async def test_failures_of_all_callers_open_the_circuit(stores: Stores, clock: HandClock) -> None:
    assert await stores.run(BREAKER.pattern_set.state(PORTAL_CIRCUIT)) is None
    await BREAKER.call(stores, PORTAL_CIRCUIT, succeed)
    await open_by_failures(stores)
    seen = await BREAKER.get_circuit(stores, PORTAL_CIRCUIT)
    assert (seen.state, seen.failure_count) == (CircuitState.open, THRESHOLD)
    assert seen.last_failure_time == int(clock.now())
    assert seen.ttl.timestamp() > clock.now() + seen.recovery_timeout
    was_closed = seen.model_copy(update={"state": CircuitState.closed})
    with pytest.raises(ConditionFailed):
        await stores.run(BREAKER.pattern_set.change(seen, was_closed))


@pytest.mark.proves("TC-84", "TC-X14")
async def test_one_caller_probes_and_a_dead_probe_is_replaced(stores: Stores, clock: HandClock) -> None:
    await open_by_failures(stores)
    clock.moment += RECOVERY_S
    gone = BREAKER.guard(stores, PORTAL_CIRCUIT)
    await gone.__aenter__()
    with pytest.raises(CircuitOpen):
        await BREAKER.call(stores, PORTAL_CIRCUIT, succeed)
    clock.moment += PROBE_S
    with pytest.raises(ExternalServiceFailed):
        await BREAKER.call(stores, PORTAL_CIRCUIT, fail)
    # The first probe wakes up too late: its success is ignored.
    await gone.__aexit__(None, None, None)
    assert (await BREAKER.get_circuit(stores, PORTAL_CIRCUIT)).state is CircuitState.open
    clock.moment += RECOVERY_S
    await BREAKER.call(stores, PORTAL_CIRCUIT, succeed)
    seen = await BREAKER.get_circuit(stores, PORTAL_CIRCUIT)
    assert (seen.state, seen.failure_count, seen.probe) == (CircuitState.closed, 0, None)
