"""The conditions of `Once` at an external service: what is refused, what is tolerated, what is recorded."""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from holdfast import Rate, Stores, open_memory_stores
from holdfast.core.errors import DeclarationError, ExternalServiceFailed, InProgress, LeaseLost
from holdfast.guarantees import Claim, Once
from holdfast.runtime import create_tables
from tests.unit.guarantees.idempotency.once_records import (
    LEASE_S,
    RETENTION_S,
    EventRecord,
    ManualClock,
    events,
    make_event,
)

ACT_S = 10.0
MARGIN_S = 2.0
DAY_S = 86_400.0

once = Once(
    EventRecord,
    prefix="ON",
    rate=Rate("event"),
    example=make_event(),
    lease_s=LEASE_S,
    retention_s=RETENTION_S,
    clock_margin_s=MARGIN_S,
)


class SlowService:
    """External service that sends a letter for each request, or for each key, when `may_send` is set."""

    def __init__(self, *, knows_keys: bool = False) -> None:
        self.letters: list[str] = []
        self.is_called, self.may_send = asyncio.Event(), asyncio.Event()
        self._knows_keys = knows_keys

    async def send(self, key: str) -> str:
        self.is_called.set()
        await self.may_send.wait()
        return await self.send_now(key)

    async def send_now(self, key: str) -> str:
        if not (self._knows_keys and key in self.letters):
            self.letters.append(key)
        return "sent"

    async def look_up(self, key: str) -> str | None:
        return "sent" if key in self.letters else None

    async def __call__(self, key: str) -> str:
        return await self.send_now(key)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def stores(clock: ManualClock) -> AsyncIterator[Stores]:
    async with open_memory_stores(clock=clock) as stores:
        await create_tables(stores, [events])
        yield stores


async def read_record(stores: Stores) -> EventRecord | None:
    return await stores.run(EventRecord.of("evt-1").get().consistent())


# --- refused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("act_s", [0.0, -1.0, LEASE_S - MARGIN_S, LEASE_S, float("nan")])
async def test_refuses_a_time_limit_that_ends_with_the_margin_after_the_lease(
    act_s: float, stores: Stores
) -> None:
    service = SlowService()
    with pytest.raises(
        DeclarationError, match=r"clock_margin_s=2, before the lease does \(60 s\). Shorten act_s"
    ):
        await once.call_external(stores, make_event(), act=service.send_now, takes_key=True, act_s=act_s)
    with pytest.raises(DeclarationError, match="Shorten act_s"):
        await once.claim(stores, make_event(), act_s=act_s)
    assert service.letters == [] and await read_record(stores) is None


def send_at_once(key: str) -> str:
    raise AssertionError("it was called")


@pytest.mark.parametrize(
    "act",
    [send_at_once, functools.partial(send_at_once, "evt-1"), lambda key: send_at_once(key)],
    ids=["function", "partial", "lambda"],
)
async def test_refuses_a_function_that_cannot_be_cancelled(act: Any, stores: Stores) -> None:
    service = SlowService()
    with pytest.raises(DeclarationError, match=r"Invalid act of EventRecord: .* is not an async function"):
        await once.call_external(stores, make_event(), act=act, takes_key=True, act_s=ACT_S)
    with pytest.raises(DeclarationError, match="Invalid look_up of EventRecord"):
        await once.call_external(
            stores, make_event(), act=service.send_now, look_up=act, takes_key=True, act_s=ACT_S
        )
    assert service.letters == [] and await read_record(stores) is None


@pytest.mark.parametrize(
    "wrap",
    [lambda service: service.send_now, lambda service: service, lambda service: functools.partial(service)],
    ids=["method", "object", "partial"],
)
async def test_accepts_every_form_of_an_async_function(
    wrap: Callable[[SlowService], Any], stores: Stores
) -> None:
    service = SlowService()
    done = await once.call_external(stores, make_event(), act=wrap(service), takes_key=True, act_s=ACT_S)
    assert (done.result, service.letters) == ("sent", ["evt-1"])


async def test_stored_time_limit_includes_the_margin(stores: Stores, clock: ManualClock) -> None:
    """A worker whose clock is ahead by less than the margin does not take the call for ended."""
    assert isinstance(await once.claim(stores, make_event(), act_s=ACT_S), Claim)
    record = await read_record(stores)
    assert record is not None
    assert record.act_until == pytest.approx(clock.now() + ACT_S + MARGIN_S, abs=0.002)


def test_refuses_a_negative_margin() -> None:
    with pytest.raises(DeclarationError, match="clock_margin_s=-1. Expected 0 or more"):
        Once(EventRecord, prefix="ON", rate=Rate("event"), example=make_event(), clock_margin_s=-1)


# --- tolerated ----------------------------------------------------------------------------------------------


async def test_taker_ahead_by_the_margin_waits_until_the_service_can_no_longer_act(
    stores: Stores, clock: ManualClock
) -> None:
    service, ahead = SlowService(), ManualClock()
    taker = Stores(stores.tables, clock=ahead)
    began = clock.now()
    claim = await once.claim(stores, make_event(), act_s=ACT_S)
    assert isinstance(claim, Claim)
    await claim.release()
    for passed_s in (0.0, 0.8 * ACT_S, ACT_S - 0.1):
        ahead.moment = began + passed_s + MARGIN_S
        with pytest.raises(InProgress):
            await once.claim(taker, make_event())
    ahead.moment = began + ACT_S + MARGIN_S
    taken = await once.call_external(
        taker, make_event(), act=service.send_now, look_up=service.look_up, act_s=ACT_S
    )
    assert (taken.result, service.letters) == ("sent", ["evt-1"])


@pytest.mark.parametrize(
    ("slept_s", "letters"), [(0.8 * ACT_S - 0.1, 1), (0.8 * ACT_S + 0.1, 0), (RETENTION_S / 2, 0)]
)
async def test_worker_that_slept_calls_only_within_four_fifths_of_its_time(
    slept_s: float, letters: int, stores: Stores, clock: ManualClock
) -> None:
    """By its own clock: the rest of the time, and the margin, are for the service and for other clocks."""
    service = SlowService()
    stores.observe(
        lambda usage: clock.advance(slept_s) if usage.pattern == once.pattern_set.claim.id else None
    )
    call = once.call_external(
        stores, make_event(), act=service.send_now, look_up=service.look_up, act_s=ACT_S
    )
    if letters:
        await call
    else:
        with pytest.raises(ExternalServiceFailed, match="nothing was sent"):
            await call
    assert len(service.letters) == letters


# --- recorded -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("takes_key", [True, False])
async def test_taker_ahead_by_more_than_the_margin_repeats_a_call_and_the_late_worker_reports_it(
    takes_key: bool, stores: Stores, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    service, counted = SlowService(knows_keys=takes_key), list[str]()
    stores.measurements.subscribe(lambda each: counted.append(each.name))
    how: dict[str, Any] = {"takes_key": takes_key, "act_s": ACT_S}
    how["look_up"] = None if takes_key else service.look_up
    late = asyncio.create_task(once.call_external(stores, make_event(), act=service.send, **how))
    await service.is_called.wait()
    taker = Stores(stores.tables, clock=ManualClock(clock.now() + DAY_S))
    await once.call_external(taker, make_event(), act=service.send_now, **how)
    service.may_send.set()
    with pytest.raises(LeaseLost), caplog.at_level(logging.ERROR):
        await late
    # Only a service that accepts the key is safe from it.
    assert service.letters == ["evt-1"] * (1 if takes_key else 2)
    assert counted == ["once_overlaps"]
    assert "The effect of evt-1 may have happened twice" in caplog.text


async def test_failed_call_of_a_late_worker_is_reported_too(stores: Stores, clock: ManualClock) -> None:
    counted = list[str]()
    stores.measurements.subscribe(lambda each: counted.append(each.name))

    async def fail(key: str) -> str:
        clock.advance(LEASE_S)
        assert isinstance(await once.claim(Stores(stores.tables, clock=clock), make_event()), Claim)
        raise ExternalServiceFailed("no answer", may_be_done=True)

    with pytest.raises(ExternalServiceFailed):
        await once.call_external(stores, make_event(), act=fail, takes_key=True, act_s=ACT_S)
    assert counted == ["once_overlaps"]


async def test_worker_that_lost_its_claim_before_the_call_reports_nothing(
    stores: Stores, clock: ManualClock
) -> None:
    counted, service = list[str](), SlowService()
    stores.measurements.subscribe(lambda each: counted.append(each.name))

    async def look_up(key: str) -> None:
        clock.advance(LEASE_S)
        await once.claim(Stores(stores.tables, clock=clock), make_event())

    await once.claim(stores, make_event(), act_s=ACT_S)
    clock.advance(LEASE_S)
    with pytest.raises(LeaseLost):
        await once.call_external(stores, make_event(), act=service.send_now, look_up=look_up, act_s=ACT_S)
    assert (counted, service.letters) == ([], [])
