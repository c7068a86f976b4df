"""Tests that a trip is bought once at a sandbox portal that does not deduplicate, over real HTTP.

Lost responses, failures, refusals, a killed worker.
"""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from holdfast import Stores
from holdfast.core.clock import RunClock
from holdfast.core.errors import (
    CircuitOpen,
    DeclarationError,
    ExternalServiceFailed,
    ExternalServiceRefused,
    IdempotencyMismatch,
    InProgress,
)
from holdfast.runtime import create_tables
from holdfast.stores.tables.embedded import open_tables
from holdfast.web import serve_in_thread
from holdfast.web.sandbox_faults import Faults
from holdfast_demo.tripcortex.sandbox.portal import PortalSandbox, build_portal_app
from tests.processes import Process, preload
from tests.systems.tripcortex.unit.portal.portal_bench import (
    EMPLOYEE,
    HASTE_S,
    KEY,
    NOON,
    REFERENCE,
    TABLES,
    TO_CHICAGO,
    TRAVELLER,
    fail,
    find_cheapest,
    list_sold,
    make_sandbox,
    open_bench,
)
from tripcortex.integrations.portal.circuit import BREAKER, PORTAL_CIRCUIT, GuardedPortal, build_breaker
from tripcortex.integrations.portal.client import ACT_S, ANSWER_S, HttpPortal, make_client
from tripcortex.integrations.portal.ports import Offer, Order, Portal, Traveller
from tripcortex.integrations.portal.purchases import (
    LEASE_S,
    PORTAL_CALLS,
    SETTLED_S,
    OutcomeOpen,
    PurchasedOrder,
    book_once,
    settle,
)
from tripcortex.model.entities import PortalCall, Preferences

WORKER = "tests.systems.tripcortex.unit.portal.booking_process"

preload(WORKER)

# How long a call without an answer is not repeated.
OPEN_S = ACT_S + PORTAL_CALLS.clock_margin_s


async def book(
    stores: Stores, portal: Portal, offer: Offer, traveller: Traveller = TRAVELLER, **more: Any
) -> PurchasedOrder:
    """Book the offer once under the test's reference."""
    return await book_once(stores, portal, REFERENCE, EMPLOYEE, offer, traveller, **more)


def test_client_timeout_is_shorter_than_deadline_and_lease() -> None:
    """Otherwise a hanging portal would be cancelled instead of counted as a failure.

    Another worker would also take over too early.
    """
    assert 0.8 * ACT_S > ANSWER_S
    assert LEASE_S > OPEN_S


@pytest.mark.proves("TC-96")
async def test_returns_the_stored_order_without_a_second_request() -> None:
    sandbox = make_sandbox()
    async with open_bench(sandbox) as (stores, portal, _):
        offer = await find_cheapest(portal)
        order = await book(stores, portal, offer)
        assert order.confirmation == f"{offer.carrier}-{order.pnr}"
        assert (order.reference, order.price_usd) == (REFERENCE, offer.price_usd)
        sandbox.is_down = True
        assert await book(stores, portal, offer) == order
        with pytest.raises(IdempotencyMismatch):
            await book(stores, portal, offer.model_copy(update={"offer_id": "OF-another"}))
    assert list_sold(sandbox) == [REFERENCE]


@pytest.mark.parametrize(
    "faults",
    [None, Faults(failed_after=1.0), Faults(failed_before=1.0)],
    ids=["no answer after acting", "5xx after acting", "5xx before acting"],
)
@pytest.mark.proves("TC-96")
async def test_looks_up_an_unknown_attempt_before_retrying(faults: Faults | None) -> None:
    sandbox = make_sandbox()
    async with open_bench(sandbox) as (stores, portal, clock):
        offer = await find_cheapest(portal)
        asked = portal if faults else HttpPortal(portal.http, clock, HASTE_S)
        with fail(sandbox, faults), pytest.raises(ExternalServiceFailed) as failed:
            await book(stores, asked, offer)
        assert failed.value.may_be_done and failed.value.retry_after_s == OPEN_S
        with pytest.raises(InProgress):
            await book(stores, portal, offer)
        clock.wait(OPEN_S)
        order = await book(stores, portal, offer)
        assert [order.order_id] == [each.order_id for each in await portal.look_up(REFERENCE)]
    assert list_sold(sandbox) == [REFERENCE]


async def test_does_not_rebuy_an_order_cancelled_at_the_portal() -> None:
    sandbox = make_sandbox()
    async with open_bench(sandbox) as (stores, portal, clock):
        offer = await find_cheapest(portal)
        with fail(sandbox, Faults(failed_after=1.0)), pytest.raises(ExternalServiceFailed):
            await book(stores, portal, offer)
        await portal.cancel(*await portal.look_up(REFERENCE))
        for _ in range(2):
            clock.wait(OPEN_S)
            with pytest.raises(ExternalServiceRefused) as refused:
                await book(stores, portal, offer)
            assert refused.value.code == "order_cancelled"
    assert list_sold(sandbox) == [REFERENCE]


async def test_retries_at_once_when_nothing_was_bought() -> None:
    sandbox = make_sandbox()
    async with open_bench(sandbox) as (stores, portal, _):
        offer = await find_cheapest(portal)
        with fail(sandbox, Faults(too_many=1.0)), pytest.raises(ExternalServiceFailed) as failed:
            await book(stores, portal, offer)
        assert not failed.value.may_be_done
        await book(stores, portal, offer)
    assert list_sold(sandbox) == [REFERENCE]


@pytest.mark.proves("TC-96")
async def test_failed_payment_is_final_and_not_retried() -> None:
    sandbox = make_sandbox(declined={EMPLOYEE})
    async with open_bench(sandbox) as (stores, portal, _):
        offer = await find_cheapest(portal)
        for _ in range(2):
            with pytest.raises(ExternalServiceRefused) as refused:
                await book(stores, portal, offer)
            assert refused.value.code == "payment_failed"
            sandbox.declined = set()
        assert list_sold(sandbox) == []
        record = PortalCall(
            reference=REFERENCE, employee_id=EMPLOYEE, payload_sha256=await get_fingerprint(stores)
        )
        await PORTAL_CALLS.reopen(stores, record)
        await book(stores, portal, offer)
    assert list_sold(sandbox) == [REFERENCE]


async def get_fingerprint(stores: Stores) -> str:
    """Return the fingerprint of the recorded purchase, which was refused."""
    found = await stores.run(PortalCall.of(REFERENCE).get().consistent())
    assert found is not None and found.refused == "payment_failed"
    return found.payload_sha256


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda sandbox: sandbox.clock.wait(sandbox.offer_life_s), "offer_expired"),
        (lambda sandbox: setattr(sandbox, "price_factor", Decimal("1.10")), "price_changed"),
        (lambda sandbox: setattr(sandbox, "seats", 0), "sold_out"),
    ],
    ids=["the offer has expired", "the price has moved", "no seat is left"],
)
async def test_does_not_buy_an_offer_that_differs_from_the_choice(change: Any, code: str) -> None:
    sandbox = make_sandbox()
    async with open_bench(sandbox) as (stores, portal, _):
        offer = await find_cheapest(portal)
        change(sandbox)
        with pytest.raises(ExternalServiceRefused) as refused:
            await book(stores, portal, offer)
        assert refused.value.code == code
    assert list_sold(sandbox) == []


async def test_one_of_eight_concurrent_workers_buys() -> None:
    sandbox = make_sandbox(faults=Faults(slow_s=0.1))
    async with open_bench(sandbox) as (stores, portal, _):
        offer = await find_cheapest(portal)
        attempts = (book(stores, portal, offer) for _ in range(8))
        ended = await asyncio.gather(*attempts, return_exceptions=True)
    assert sorted(type(each).__name__ for each in ended) == [*["InProgress"] * 7, "PurchasedOrder"]
    assert list_sold(sandbox) == [REFERENCE]


@pytest.mark.proves("TC-85", "TC-93")
async def test_open_circuit_refuses_a_purchase_and_a_later_attempt_buys_once() -> None:
    sandbox = make_sandbox()
    async with open_bench(sandbox) as (stores, portal, clock):
        breaker = build_breaker(failures=2, recovery_s=60)
        guarded = GuardedPortal(stores, portal, breaker)
        offer = (await guarded.search(TO_CHICAGO, Preferences()))[0]
        assert (await breaker.get_circuit(stores, PORTAL_CIRCUIT)).failure_count == 0
        sandbox.is_down = True
        for _ in range(2):
            with pytest.raises(ExternalServiceFailed):
                await guarded.price(offer.offer_id)
        sandbox.is_down = False
        with pytest.raises(CircuitOpen):
            await guarded.search(TO_CHICAGO, Preferences())
        with pytest.raises(CircuitOpen):
            await book(stores, guarded, offer)
        clock.wait(60)
        order = await book(stores, guarded, offer)
        assert (await guarded.cancel(order)).reference == order.reference == REFERENCE
    assert list_sold(sandbox) == [REFERENCE]


async def test_attempt_stays_open_when_its_look_up_fails() -> None:
    """A refused look-up does not prove that nothing was bought."""

    class Mute(HttpPortal):
        answer: Any = None

        async def look_up(self, reference: str) -> tuple[Order, ...]:
            raise self.answer

    sandbox = make_sandbox()
    async with open_bench(sandbox) as (stores, portal, clock):
        offer = await find_cheapest(portal)
        with fail(sandbox, Faults(failed_after=1.0)), pytest.raises(OutcomeOpen):
            await book(stores, portal, offer)
        for error in (
            ExternalServiceFailed("down", may_be_done=False, retry_after_s=7.0),
            ExternalServiceRefused("404", "no such page"),
            CircuitOpen("open", retry_after_s=7.0),
        ):
            clock.wait(OPEN_S)
            mute = Mute(portal.http, portal.clock)
            object.__setattr__(mute, "answer", error)
            with pytest.raises(OutcomeOpen) as still:
                await book(stores, mute, offer)
            assert still.value.may_be_done
            assert still.value.retry_after_s == getattr(error, "retry_after_s", None)
        clock.wait(OPEN_S)
        assert (await book(stores, portal, offer)).asked_again_at is None
    assert list_sold(sandbox) == [REFERENCE]


@pytest.mark.parametrize("knows_keys", [False, True])
async def test_cancels_the_surplus_of_a_late_purchase(knows_keys: bool) -> None:
    """It arrives 30 s after it was sent: the look-up found nothing, and the retry bought again."""
    sandbox = make_sandbox(late_orders=1, late_s=ACT_S + 10, knows_keys=knows_keys, price_step_s=0.0)
    async with open_bench(sandbox) as (stores, portal, clock):
        offer = await find_cheapest(portal)
        with pytest.raises(OutcomeOpen):
            await book(stores, portal, offer)
        clock.wait(OPEN_S)
        bought = await book(stores, portal, offer)
        with pytest.raises(OutcomeOpen) as early:
            await settle(stores, portal, bought)
        assert early.value.retry_after_s == SETTLED_S
        clock.wait(SETTLED_S)
        bought = await settle(stores, portal, await book(stores, portal, offer))
        live = [each.order_id for each in await portal.look_up(REFERENCE) if each.status == "confirmed"]
        assert live == [bought.order_id]
        assert (len(bought.surplus), bought.left) == (0 if knows_keys else 1, [])
        # A worker that died before writing the outcome finds it again.
        assert (await settle(stores, portal, await book(stores, portal, offer))).surplus == bought.surplus
    assert list_sold(sandbox) == [REFERENCE] * (1 if knows_keys else 2)


async def test_purchase_repeated_a_day_ahead_settles_after_the_same_wait() -> None:
    sandbox = make_sandbox(price_step_s=0.0)
    async with open_bench(sandbox) as (stores, portal, clock):
        order = await book(stores, portal, await find_cheapest(portal))
        bought = order.model_copy(update={"asked_again_at": stores.now() + timedelta(days=1)})
        with pytest.raises(OutcomeOpen) as early:
            await settle(stores, portal, bought)
        assert early.value.retry_after_s == SETTLED_S
        clock.wait(SETTLED_S)
        assert await settle(stores, portal, bought) == bought


async def test_look_up_of_two_orders_reports_the_one_it_could_not_cancel() -> None:
    class Keeping(HttpPortal):
        async def cancel(self, order: Order) -> Any:
            raise ExternalServiceFailed("not now", may_be_done=True)

    sandbox = make_sandbox(price_step_s=0.0)
    async with open_bench(sandbox) as (stores, portal, clock):
        offer = await find_cheapest(portal)
        with fail(sandbox, Faults(failed_after=1.0)), pytest.raises(OutcomeOpen):
            await book(stores, portal, offer)
        second = await portal.book(REFERENCE, offer.offer_id, TRAVELLER, offer.price_usd)
        clock.wait(OPEN_S)
        bought = await book(stores, Keeping(portal.http, portal.clock), offer)
        assert bought.order_id != second.order_id
        assert (bought.surplus, bought.left) == ([], [second.order_id])


async def test_slow_portal_requires_a_longer_lease_and_probe() -> None:
    sandbox = make_sandbox(price_step_s=0.0)
    async with open_bench(sandbox) as (stores, portal, clock):
        offer, slow = await find_cheapest(portal), HttpPortal(portal.http, portal.clock, act_s=300.0)
        with pytest.raises(DeclarationError, match="lease_s"):
            GuardedPortal(stores, slow, BREAKER)
        guarded = GuardedPortal(stores, slow, build_breaker(lease_s=330))
        with fail(sandbox, Faults(failed_after=1.0)), pytest.raises(OutcomeOpen) as failed:
            await book(stores, guarded, offer)
        assert failed.value.retry_after_s == 300.0 + PORTAL_CALLS.clock_margin_s
        clock.wait(LEASE_S + 1)
        with pytest.raises(InProgress):
            await book(stores, guarded, offer)
        clock.wait(300.0 + PORTAL_CALLS.clock_margin_s)
        assert (await book(stores, guarded, offer)).reference == REFERENCE
    assert list_sold(sandbox) == [REFERENCE]


async def test_record_contains_no_payment_details() -> None:
    sandbox = make_sandbox()
    async with open_bench(sandbox) as (stores, portal, _):
        offer = await find_cheapest(portal)
        await book(stores, portal, offer, Traveller(traveller_id=EMPLOYEE, payment="account-4711"))
        found = await stores.run(PortalCall.of(REFERENCE).get().consistent())
    assert found is not None and "account-4711" not in found.model_dump_json()
    assert "account-4711" not in str(sandbox.ledger)


@pytest.mark.proves("TC-96")
async def test_takes_over_from_a_killed_worker_without_buying_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = RunClock(tmp_path / "clock", start=NOON.timestamp())
    sandbox = PortalSandbox(clock=clock, folder=tmp_path, api_key=KEY)
    has_sold = threading.Event()
    sell = sandbox.orders.sell

    def sell_and_signal(*args: Any) -> Order:
        order = sell(*args)
        has_sold.set()
        return order

    monkeypatch.setattr(sandbox.orders, "sell", sell_and_signal)
    with (
        open_tables(tmp_path / "tables.db", clock=clock) as tables,
        serve_in_thread(build_portal_app(sandbox)) as url,
    ):
        stores = Stores(tables, clock=clock)
        await create_tables(stores, TABLES)
        async with make_client(url, KEY) as http:
            portal = HttpPortal(http, clock)
            offer = await find_cheapest(portal)
            sandbox.faults = Faults(silent_after=1.0, silence_s=1.0)
            with Process(WORKER, tmp_path, url, KEY, REFERENCE, offer.offer_id, offer.price_usd) as process:
                assert has_sold.wait(60), process.read_log()
            sandbox.faults = Faults()
            with pytest.raises(InProgress) as held:
                await book(stores, portal, offer)
            assert held.value.retry_after_s == LEASE_S
            clock.advance(LEASE_S)
            order = await book(stores, portal, offer)
    assert list_sold(sandbox) == [REFERENCE]
    [kept] = PortalSandbox(clock=clock, folder=tmp_path).orders.find_orders(REFERENCE)
    assert (kept.order_id, kept.pnr) == (order.order_id, order.pnr)
