"""`Breaker` on in-memory tables: opens at the threshold, admits one probe, closes after a success."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Attr, Component, Key, Rate, Stores, System, Table, attr, open_memory_stores
from holdfast.core.errors import (
    AccessRefused,
    CircuitOpen,
    ComponentRefused,
    ExternalServiceFailed,
    StoreUnreachable,
    Throttled,
)
from holdfast.guarantees import BREAKERS, Breaker, Circuit, CircuitRecord
from holdfast.operations.tables import GetItem, PutItem
from holdfast.runtime import create_tables
from holdfast.stores.tables.port import Tables

NOON = datetime(2026, 2, 4, 12, tzinfo=UTC)
FAILURES, WINDOW_S, RECOVERY_S, LEASE_S = 3, 60.0, 30.0, 10.0


class ManualClock:
    """Clock that moves only when the test advances it."""

    def __init__(self) -> None:
        self.moment = NOON

    def now(self) -> float:
        return self.moment.timestamp()

    def advance(self, seconds: float) -> None:
        self.moment += timedelta(seconds=seconds)


def make_breaker(**terms: Any) -> Breaker[Circuit]:
    """Return a breaker that opens after three failures in a minute. `terms` override its settings."""
    terms = {"failures": FAILURES, "window_s": WINDOW_S, "recovery_s": RECOVERY_S, "lease_s": LEASE_S} | terms
    return Breaker(Circuit, prefix="CB", rate=Rate("call"), counted_errors=(ExternalServiceFailed,), **terms)


@asynccontextmanager
async def open_breakers(clock: ManualClock) -> AsyncIterator[Stores]:
    """Open in-memory stores with the table of the guarantee."""
    async with open_memory_stores(clock=clock) as stores:
        await create_tables(stores, [BREAKERS])
        yield stores


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def stores(clock: ManualClock) -> AsyncIterator[Stores]:
    async with open_breakers(clock) as stores:
        yield stores


async def succeed() -> str:
    return "done"


async def fail() -> str:
    """Fail as the external service does, with a counted error."""
    raise ExternalServiceFailed("502", may_be_done=False)


async def call_shop(
    breaker: Breaker[Circuit], stores: Stores, function: Callable[[], Awaitable[str]] = succeed
) -> str:
    """Call through the breaker and return "done", "failed" or "open"."""
    try:
        return await breaker.call(stores, "shop", function)
    except ExternalServiceFailed:
        return "failed"
    except CircuitOpen:
        return "open"


async def open_circuit(breaker: Breaker[Circuit], stores: Stores) -> None:
    """Fail calls until the circuit is open."""
    for _ in range(FAILURES):
        assert await call_shop(breaker, stores, fail) == "failed"


async def test_circuit_opens_at_the_threshold_and_reports_when_to_retry(
    stores: Stores, clock: ManualClock
) -> None:
    breaker = make_breaker()
    await open_circuit(breaker, stores)
    clock.advance(10)
    with pytest.raises(CircuitOpen) as refused:
        await breaker.call(stores, "shop", succeed)
    assert refused.value.retry_after_s == RECOVERY_S - 10
    assert await breaker.call(stores, "help desk", succeed) == "done"


async def test_failures_further_apart_than_the_window_do_not_open_the_circuit(
    stores: Stores, clock: ManualClock
) -> None:
    breaker = make_breaker()
    for _ in range(10):
        assert await call_shop(breaker, stores, fail) == "failed"
        clock.advance(WINDOW_S / (FAILURES - 1))


async def test_after_the_recovery_time_a_success_closes_and_a_failure_opens_again(
    stores: Stores, clock: ManualClock
) -> None:
    breaker = make_breaker()
    await open_circuit(breaker, stores)
    clock.advance(RECOVERY_S)
    assert await call_shop(breaker, stores, fail) == "failed"
    assert await call_shop(breaker, stores) == "open"
    clock.advance(RECOVERY_S)
    assert await call_shop(breaker, stores) == "done"
    assert await call_shop(breaker, stores, fail) == "failed"  # one failure of a closed circuit
    assert await call_shop(breaker, stores) == "done"


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
@pytest.mark.parametrize("is_dead", [False, True], ids=["recovered", "its probe is dead"])
async def test_half_open_admits_one_probe_of_sixteen_callers(
    is_dead: bool, stores: Stores, clock: ManualClock
) -> None:
    await open_circuit(make_breaker(), stores)
    clock.advance(RECOVERY_S)
    if is_dead:
        await make_breaker().guard(stores, "shop").__aenter__()
        clock.advance(LEASE_S)
    synchronized = Stores(SynchronizedReads(stores.tables, 16), clock=clock)
    is_over, probes = asyncio.Event(), 0

    async def slow() -> str:
        nonlocal probes
        probes += 1
        await is_over.wait()
        return "done"

    calls = [asyncio.create_task(call_shop(make_breaker(), synchronized, slow)) for _ in range(16)]
    waiting = set(calls)
    while len(waiting) > max(1, probes):
        _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    is_over.set()
    assert sorted([await call for call in calls]) == ["done", *["open"] * 15]
    assert await call_shop(make_breaker(), synchronized) == "done"


async def test_dead_probe_frees_its_slot_when_its_lease_expires(stores: Stores, clock: ManualClock) -> None:
    breaker = make_breaker()
    await open_circuit(breaker, stores)
    clock.advance(RECOVERY_S)
    dead = breaker.guard(stores, "shop")
    await dead.__aenter__()
    clock.advance(LEASE_S - 1)
    with pytest.raises(CircuitOpen) as refused:
        await breaker.call(stores, "shop", succeed)
    assert refused.value.retry_after_s == 1
    clock.advance(1)
    assert await call_shop(breaker, stores, fail) == "failed"
    # The first probe resumes; its success no longer counts.
    await dead.__aexit__(None, None, None)
    assert await call_shop(breaker, stores) == "open"


@pytest.mark.parametrize("error", [None, ExternalServiceFailed("502", may_be_done=False)])
@pytest.mark.parametrize("window_s", [WINDOW_S, None])
async def test_end_of_a_call_that_began_before_the_opening_changes_nothing(
    window_s: float | None, error: Exception | None, stores: Stores, clock: ManualClock
) -> None:
    breaker = make_breaker(window_s=window_s)
    late = breaker.guard(stores, "shop")
    await late.__aenter__()
    await open_circuit(breaker, stores)
    opened = await breaker.get_circuit(stores, "shop")
    clock.advance(1)
    assert not await late.__aexit__(type(error) if error else None, error, None)
    assert await breaker.get_circuit(stores, "shop") == opened


async def test_cancelled_probe_frees_its_slot_at_once(stores: Stores, clock: ManualClock) -> None:
    breaker = make_breaker()
    await open_circuit(breaker, stores)
    clock.advance(RECOVERY_S)
    began = asyncio.Event()

    async def endless() -> str:
        began.set()
        await asyncio.Event().wait()
        return "never"

    probe = asyncio.create_task(breaker.call(stores, "shop", endless))
    await began.wait()
    probe.cancel()
    with pytest.raises(asyncio.CancelledError):
        await probe
    assert await call_shop(breaker, stores) == "done"


async def test_clock_set_back_refuses_calls_for_at_most_one_recovery_time(
    stores: Stores, clock: ManualClock
) -> None:
    breaker = make_breaker()
    await open_circuit(breaker, stores)
    clock.advance(-86400)
    with pytest.raises(CircuitOpen) as refused:
        await breaker.call(stores, "shop", succeed)
    assert refused.value.retry_after_s == RECOVERY_S
    clock.advance(RECOVERY_S)
    await breaker.guard(stores, "shop").__aenter__()
    assert await call_shop(breaker, stores) == "open"
    # The same holds for a probe that never ends.
    clock.advance(-86400)
    assert await call_shop(breaker, stores) == "open"
    clock.advance(breaker.limits.lease_s)
    assert await call_shop(breaker, stores) == "done"


async def test_uncounted_error_neither_opens_nor_keeps_the_circuit_open(
    stores: Stores, clock: ManualClock
) -> None:
    async def not_found() -> str:
        raise KeyError("no such order")

    breaker = make_breaker()
    for _ in range(FAILURES):
        with pytest.raises(KeyError):
            await breaker.call(stores, "shop", not_found)
    await open_circuit(breaker, stores)
    clock.advance(RECOVERY_S)
    with pytest.raises(KeyError):  # the service answers, so it has recovered
        await breaker.call(stores, "shop", not_found)
    assert await call_shop(breaker, stores) == "done"


async def test_open_circuit_has_no_expiry_and_stays_open_for_years(
    stores: Stores, clock: ManualClock
) -> None:
    breaker = make_breaker(recovery_s=10 * 365 * 86400.0)
    await call_shop(breaker, stores, fail)
    closed = await stores.run(Circuit.of("shop").get())
    assert closed is not None and closed.expires_at is not None
    await call_shop(breaker, stores, fail)
    await call_shop(breaker, stores, fail)
    opened = await stores.run(Circuit.of("shop").get())
    assert opened is not None and opened.expires_at is None
    clock.advance(9 * 365 * 86400)
    assert await call_shop(breaker, stores) == "open"


async def test_expired_closed_circuit_starts_counting_again(stores: Stores, clock: ManualClock) -> None:
    breaker = make_breaker()
    await call_shop(breaker, stores, fail)
    await call_shop(breaker, stores, fail)
    clock.advance(2 * 86400)  # expired but not removed: not read, and still overwritten
    assert await stores.run(Circuit.of("shop").get()) is None
    await call_shop(breaker, stores, fail)
    assert await call_shop(breaker, stores) == "done"


async def test_call_on_a_closed_circuit_reads_rarely_and_writes_nothing(
    stores: Stores, clock: ManualClock
) -> None:
    breaker = make_breaker(closed_cache_s=1.0)
    with stores.meter_usage() as meter:
        for _ in range(10):
            await breaker.call(stores, "shop", succeed)
    assert [usage.operation for usage in meter.usages] == ["GetItem"]
    clock.advance(1)
    with stores.meter_usage() as meter:
        await breaker.call(stores, "shop", succeed)
    assert [usage.operation for usage in meter.usages] == ["GetItem"]


def test_record_without_one_of_the_methods_cannot_be_made() -> None:
    class Unfinished(CircuitRecord, table=Table("Unfinished", partition="service")):
        service: Attr[str] = attr()
        of = Key(service)

    with pytest.raises(TypeError, match="abstract method"):
        Unfinished(service="shop")  # type: ignore[abstract]


async def test_success_without_failures_writes_nothing_if_consecutive_failures_count(stores: Stores) -> None:
    breaker = make_breaker(window_s=None)
    with stores.meter_usage() as meter:
        assert await call_shop(breaker, stores) == "done"
    assert {usage.operation for usage in meter.usages} == {"GetItem"}


@pytest.mark.parametrize(
    "error",
    [
        StoreUnreachable("no route"),
        AccessRefused("AccessDenied", "no"),
        Throttled(),
        OSError("the disk is gone"),
    ],
    ids=lambda each: type(each).__name__,
)
async def test_returns_the_result_although_the_circuit_state_cannot_be_written(
    error: Exception, stores: Stores, clock: ManualClock
) -> None:
    class Unreachable:
        """Tables engine that rejects writes while it is cut off."""

        is_cut_off = False

        def __init__(self, behind: Any) -> None:
            self.behind = behind

        async def run(self, operation: Any) -> Any:
            if self.is_cut_off and isinstance(operation, PutItem):
                raise error
            return await self.behind.run(operation)

    breaker = make_breaker()
    await open_circuit(breaker, stores)
    clock.advance(RECOVERY_S)
    tables = Unreachable(stores.tables)
    cut_off = Stores(tables, clock=clock)

    async def succeed_and_cut_off() -> str:
        tables.is_cut_off = True
        return "done"

    assert await breaker.call(cut_off, "shop", succeed_and_cut_off) == "done"
    assert await call_shop(breaker, stores) == "open"  # for as long as the probe's lease
    clock.advance(LEASE_S)
    assert await call_shop(breaker, stores) == "done"


async def test_logs_and_counts_each_opening_and_closing_once(caplog: pytest.LogCaptureFixture) -> None:
    counted: list[str] = []

    clock = ManualClock()
    async with open_breakers(clock) as stores:
        stores.measurements.subscribe(lambda each: counted.append(f"{each.name} {each.labels['breaker']}"))
        breaker = make_breaker()
        await open_circuit(breaker, stores)
        clock.advance(RECOVERY_S)
        assert await call_shop(breaker, stores, fail) == "failed"  # stays open, and is not logged again
        clock.advance(RECOVERY_S)
        assert await call_shop(breaker, stores) == "done"
        await open_circuit(breaker, stores)
    assert counted == ["breaker_opened shop", "breaker_closed shop", "breaker_opened shop"]
    warnings = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    assert [each.split(":")[0] for each in warnings] == [
        f"The circuit of shop is open after {FAILURES} failures",
        "The circuit of shop is closed again",
        f"The circuit of shop is open after {FAILURES} failures",
    ]


async def test_component_needs_both_patterns_to_call() -> None:
    breaker = make_breaker()
    system = System(
        "calls",
        "Calls",
        tables=(BREAKERS,),
        patterns=breaker.patterns,
        components=(
            Component("caller", uses=(breaker.reads, breaker.writes)),
            Component("watcher", uses=(breaker.reads,)),
        ),
    )

    async with open_memory_stores(system, clock=ManualClock()) as stores:
        await create_tables(stores, system.tables)
        assert await call_shop(breaker, stores.for_component("caller"), fail) == "failed"
        with pytest.raises(ComponentRefused):
            await call_shop(breaker, stores.for_component("watcher"), fail)


@given(
    st.sampled_from([WINDOW_S, None]),
    st.lists(st.tuples(st.sampled_from(["works", "fails"]), st.integers(0, 40)), max_size=25),
)
async def test_behaves_like_a_simple_model_under_any_sequence_of_calls(
    window_s: float | None, calls: list[tuple[str, int]]
) -> None:
    """Without a window, consecutive failures count: a success clears them."""
    clock = ManualClock()
    async with open_breakers(clock) as stores:
        breaker = make_breaker(window_s=window_s, closed_cache_s=0.0)
        recent: list[datetime] = []
        retry_at: datetime | None = None
        for kind, pause in calls:
            clock.advance(pause)
            now = clock.moment
            is_open = retry_at is not None and now < retry_at
            expected = "open" if is_open else "done" if kind == "works" else "failed"
            assert await call_shop(breaker, stores, succeed if kind == "works" else fail) == expected
            if is_open:
                continue
            if kind == "works":
                recent, retry_at = (recent if retry_at is None and window_s else []), None
            else:
                since = now - timedelta(seconds=window_s or 10**6)
                recent = [each for each in recent if each > since] + [now]
                if retry_at is not None or len(recent) >= FAILURES:
                    recent, retry_at = [], now + timedelta(seconds=RECOVERY_S)
