"""A trip is bought once at a portal that deduplicates nothing, over real HTTP: answers lost, failures, refusals, a killed worker."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from holdfast import Stores, create_tables
from holdfast.core.clock import RunClock
from holdfast.core.errors import (
    CircuitOpen,
    DeclarationError,
    ExternalServiceFailed,
    ExternalServiceRefused,
    IdempotencyMismatch,
    InProgress,
)
from holdfast.stores.tables.embedded import open_tables
from holdfast.web import serve_in_thread
from holdfast.web.sandbox_faults import Faults
from tests.unit.tripcortex.portal.portal_play import (
    EMPLOYEE,
    KEY,
    NOON,
    REFERENCE,
    TABLES,
    TO_CHICAGO,
    TRAVELLER,
    HandClock,
    cheapest,
    make_sandbox,
    played,
    sold,
)
from tripcortex.demo.sandbox.portal import PortalSandbox, build_portal_app
from tripcortex.integrations.portal.circuit import GuardedPortal, PortalCircuit
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

ROOT = Path(__file__).parents[4]


async def booked(
    stores: Stores, portal: Portal, offer: Offer, traveller: Traveller = TRAVELLER, **more: Any
) -> PurchasedOrder:
    return await book_once(stores, portal, REFERENCE, EMPLOYEE, offer, traveller, **more)


def test_the_client_gives_up_before_the_deadline_and_the_deadline_is_before_the_lease() -> None:
    """Else a portal that hangs would be cancelled instead of counted, and a taker-over would come too early."""
    assert 0.8 * ACT_S > ANSWER_S
    assert LEASE_S > ACT_S


@pytest.mark.proves("TC-96")
def test_a_trip_is_bought_and_the_same_order_is_given_again_without_asking() -> None:
    sandbox = make_sandbox()

    async def story(stores: Stores, portal: HttpPortal, clock: HandClock) -> None:
        offer = await cheapest(portal)
        order = await booked(stores, portal, offer)
        assert order.confirmation == f"{offer.carrier}-{order.pnr}"
        assert (order.reference, order.price_usd) == (REFERENCE, offer.price_usd)
        sandbox.is_down = True
        assert await booked(stores, portal, offer) == order
        with pytest.raises(IdempotencyMismatch):
            await booked(stores, portal, offer.model_copy(update={"offer_id": "OF-another"}))

    played(sandbox, story)
    assert sold(sandbox) == [REFERENCE]


@pytest.mark.parametrize(
    "faults",
    [
        Faults(silent_after=1.0, silence_s=0.8),
        Faults(failed_after=1.0),
        Faults(failed_before=1.0),
    ],
    ids=["no answer after acting", "5xx after acting", "5xx before acting"],
)
@pytest.mark.proves("TC-96")
def test_an_attempt_that_nobody_knows_the_end_of_is_looked_up_before_it_is_repeated(faults: Faults) -> None:
    sandbox = make_sandbox()

    async def story(stores: Stores, portal: HttpPortal, clock: HandClock) -> None:
        offer = await cheapest(portal)
        sandbox.faults = faults
        with pytest.raises(ExternalServiceFailed) as failed:
            await booked(stores, portal, offer)
        assert failed.value.may_be_done and failed.value.retry_after_s == ACT_S
        sandbox.faults = Faults()
        with pytest.raises(InProgress):
            await booked(stores, portal, offer)
        clock.wait(ACT_S)
        order = await booked(stores, portal, offer)
        assert [order.order_id] == [each.order_id for each in await portal.look_up(REFERENCE)]

    played(sandbox, story, answer_s=0.3)
    assert sold(sandbox) == [REFERENCE]


def test_what_was_bought_and_cancelled_at_the_portal_meanwhile_is_not_bought_anew() -> None:
    sandbox = make_sandbox()

    async def story(stores: Stores, portal: HttpPortal, clock: HandClock) -> None:
        offer = await cheapest(portal)
        sandbox.faults = Faults(failed_after=1.0)
        with pytest.raises(ExternalServiceFailed):
            await booked(stores, portal, offer)
        sandbox.faults = Faults()
        await portal.cancel(*await portal.look_up(REFERENCE))
        for _ in range(2):
            clock.wait(ACT_S)
            with pytest.raises(ExternalServiceRefused) as refused:
                await booked(stores, portal, offer)
            assert refused.value.code == "order_cancelled"

    played(sandbox, story)
    assert sold(sandbox) == [REFERENCE]


def test_what_was_certainly_not_done_is_repeated_at_once() -> None:
    sandbox = make_sandbox()

    async def story(stores: Stores, portal: HttpPortal, clock: HandClock) -> None:
        offer = await cheapest(portal)
        sandbox.faults = Faults(too_many=1.0)
        with pytest.raises(ExternalServiceFailed) as failed:
            await booked(stores, portal, offer)
        assert not failed.value.may_be_done
        sandbox.faults = Faults()
        await booked(stores, portal, offer)

    played(sandbox, story)
    assert sold(sandbox) == [REFERENCE]


@pytest.mark.proves("TC-96")
def test_a_payment_that_failed_is_refused_for_good_and_the_portal_is_not_asked_again() -> None:
    sandbox = make_sandbox(declined={EMPLOYEE})

    async def story(stores: Stores, portal: HttpPortal, clock: HandClock) -> None:
        offer = await cheapest(portal)
        for _ in range(2):
            with pytest.raises(ExternalServiceRefused) as refused:
                await booked(stores, portal, offer)
            assert refused.value.code == "payment_failed"
            sandbox.declined = set()
        assert sold(sandbox) == []
        record = PortalCall(reference=REFERENCE, employee_id=EMPLOYEE, payload_sha256=await _sha(stores))
        await PORTAL_CALLS.reopen(stores, record)
        await booked(stores, portal, offer)

    played(sandbox, story)
    assert sold(sandbox) == [REFERENCE]


async def _sha(stores: Stores) -> str:
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
def test_what_is_not_as_it_was_chosen_is_not_bought(change: Any, code: str) -> None:
    sandbox = make_sandbox()

    async def story(stores: Stores, portal: HttpPortal, clock: HandClock) -> None:
        offer = await cheapest(portal)
        change(sandbox)
        with pytest.raises(ExternalServiceRefused) as refused:
            await booked(stores, portal, offer)
        assert refused.value.code == code

    played(sandbox, story)
    assert sold(sandbox) == []


def test_of_eight_workers_at_once_one_buys() -> None:
    sandbox = make_sandbox(slow_s=0.1)

    async def story(stores: Stores, portal: HttpPortal, clock: HandClock) -> list[Any]:
        offer = await cheapest(portal)
        attempts = (booked(stores, portal, offer) for _ in range(8))
        return await asyncio.gather(*attempts, return_exceptions=True)

    ended = played(sandbox, story)
    assert sorted(type(each).__name__ for each in ended) == [*["InProgress"] * 7, "PurchasedOrder"]
    assert sold(sandbox) == [REFERENCE]


@pytest.mark.proves("TC-85")
@pytest.mark.proves("TC-93")
def test_an_outage_opens_the_circuit_and_a_purchase_that_was_held_back_is_made_afterwards() -> None:
    sandbox = make_sandbox()

    async def story(stores: Stores, portal: HttpPortal, clock: HandClock) -> None:
        circuit = PortalCircuit(threshold=2, recovery_s=60)
        guarded = GuardedPortal(stores, portal, circuit)
        offer = (await guarded.search(TO_CHICAGO, Preferences()))[0]
        assert (await circuit.get_circuit(stores)).failure_count == 0
        sandbox.is_down = True
        for _ in range(2):
            with pytest.raises(ExternalServiceFailed):
                await guarded.price(offer.offer_id)
        sandbox.is_down = False
        with pytest.raises(CircuitOpen):
            await guarded.search(TO_CHICAGO, Preferences())
        with pytest.raises(CircuitOpen):
            await booked(stores, guarded, offer)
        clock.wait(60)
        order = await booked(stores, guarded, offer)
        assert (await guarded.cancel(order)).reference == order.reference == REFERENCE

    played(sandbox, story)
    assert sold(sandbox) == [REFERENCE]


def test_an_attempt_whose_look_up_fails_or_is_refused_stays_open() -> None:
    """A portal that refuses a look-up has not said that nothing was bought."""

    class Mute(HttpPortal):
        answer: Any = None

        async def look_up(self, reference: str) -> tuple[Order, ...]:
            raise self.answer

    sandbox = make_sandbox()

    async def story(stores: Stores, portal: HttpPortal, clock: HandClock) -> None:
        offer = await cheapest(portal)
        sandbox.faults = Faults(failed_after=1.0)
        with pytest.raises(OutcomeOpen):
            await booked(stores, portal, offer)
        sandbox.faults = Faults()
        for error in (
            ExternalServiceFailed("down", may_be_done=False, retry_after_s=7.0),
            ExternalServiceRefused("404", "no such page"),
            CircuitOpen("open", retry_after_s=7.0),
        ):
            clock.wait(ACT_S)
            mute = Mute(portal.http, portal.clock)
            object.__setattr__(mute, "answer", error)
            with pytest.raises(OutcomeOpen) as still:
                await booked(stores, mute, offer)
            assert still.value.may_be_done
            assert still.value.retry_after_s == getattr(error, "retry_after_s", None)
        clock.wait(ACT_S)
        assert (await booked(stores, portal, offer)).asked_again_at is None

    played(sandbox, story)
    assert sold(sandbox) == [REFERENCE]


@pytest.mark.parametrize("knows_keys", [False, True])
def test_a_purchase_that_comes_through_late_is_noticed_and_the_surplus_is_cancelled(knows_keys: bool) -> None:
    """30 s after it was sent: the look-up found nothing, and it was asked for again."""
    sandbox = make_sandbox(late_orders=1, late_s=ACT_S + 10, knows_keys=knows_keys, price_step_s=0.0)

    async def story(stores: Stores, portal: HttpPortal, clock: HandClock) -> None:
        offer = await cheapest(portal)
        with pytest.raises(OutcomeOpen):
            await booked(stores, portal, offer)
        clock.wait(ACT_S)
        bought = await booked(stores, portal, offer)
        with pytest.raises(OutcomeOpen) as early:
            await settle(stores, portal, bought)
        assert early.value.retry_after_s == SETTLED_S
        clock.wait(SETTLED_S)
        bought = await settle(stores, portal, await booked(stores, portal, offer))
        live = [each.order_id for each in await portal.look_up(REFERENCE) if each.status == "confirmed"]
        assert live == [bought.order_id]
        assert (len(bought.surplus), bought.left) == (0 if knows_keys else 1, [])
        # Whoever died before it was written finds it again.
        assert (await settle(stores, portal, await booked(stores, portal, offer))).surplus == bought.surplus

    played(sandbox, story)
    assert sold(sandbox) == [REFERENCE] * (1 if knows_keys else 2)


def test_of_two_orders_that_a_look_up_finds_one_counts_and_what_cannot_be_cancelled_is_told() -> None:
    class Keeping(HttpPortal):
        async def cancel(self, order: Order) -> Any:
            raise ExternalServiceFailed("not now", may_be_done=True)

    sandbox = make_sandbox(price_step_s=0.0)

    async def story(stores: Stores, portal: HttpPortal, clock: HandClock) -> None:
        offer = await cheapest(portal)
        sandbox.faults = Faults(failed_after=1.0)
        with pytest.raises(OutcomeOpen):
            await booked(stores, portal, offer)
        sandbox.faults = Faults()
        second = await portal.book(REFERENCE, offer.offer_id, TRAVELLER, offer.price_usd)
        clock.wait(ACT_S)
        bought = await booked(stores, Keeping(portal.http, portal.clock), offer)
        assert bought.order_id != second.order_id
        assert (bought.surplus, bought.left) == ([], [second.order_id])

    played(sandbox, story)


@pytest.mark.proves("TC-96")
@pytest.mark.parametrize(("factor", "is_bought"), [("1.01", True), ("1.06", False)])
def test_a_price_that_moves_at_the_last_moment_is_agreed_to_within_what_was_agreed(
    factor: str, is_bought: bool
) -> None:
    sandbox = make_sandbox(price_step_s=0.0)

    async def story(stores: Stores, portal: HttpPortal, clock: HandClock) -> None:
        offer = await cheapest(portal)
        sandbox.price_factor = Decimal(factor)
        most = offer.price_usd * Decimal("1.05")
        if is_bought:
            bought = await booked(stores, portal, offer, max_price_usd=most)
            assert offer.price_usd < bought.price_usd <= most
            assert await booked(stores, portal, offer, max_price_usd=most) == bought
            return
        for _ in range(2):
            with pytest.raises(ExternalServiceRefused) as refused:
                await booked(stores, portal, offer, max_price_usd=most)
            assert refused.value.code == "price_changed"

    played(sandbox, story)
    assert sold(sandbox) == ([REFERENCE] if is_bought else [])


def test_a_portal_that_takes_minutes_has_a_lease_that_outlasts_it_and_needs_a_longer_probe() -> None:
    sandbox = make_sandbox(price_step_s=0.0)

    async def story(stores: Stores, portal: HttpPortal, clock: HandClock) -> None:
        offer, slow = await cheapest(portal), HttpPortal(portal.http, portal.clock, act_s=300.0)
        with pytest.raises(DeclarationError, match="probe_s"):
            GuardedPortal(stores, slow, PortalCircuit())
        guarded = GuardedPortal(stores, slow, PortalCircuit(probe_s=330))
        sandbox.faults = Faults(failed_after=1.0)
        with pytest.raises(OutcomeOpen) as failed:
            await booked(stores, guarded, offer)
        assert failed.value.retry_after_s == 300.0
        sandbox.faults = Faults()
        clock.wait(LEASE_S + 1)
        with pytest.raises(InProgress):
            await booked(stores, guarded, offer)
        clock.wait(300.0)
        assert (await booked(stores, guarded, offer)).reference == REFERENCE

    played(sandbox, story)
    assert sold(sandbox) == [REFERENCE]


def test_nothing_of_the_way_it_is_paid_is_in_the_record() -> None:
    sandbox = make_sandbox()

    async def story(stores: Stores, portal: HttpPortal, clock: HandClock) -> str:
        offer = await cheapest(portal)
        await booked(stores, portal, offer, Traveller(traveller_id=EMPLOYEE, payment="account-4711"))
        found = await stores.run(PortalCall.of(REFERENCE).get().consistent())
        assert found is not None
        return found.model_dump_json()

    assert "4711" not in played(sandbox, story)
    assert "4711" not in str(sandbox.ledger)


@pytest.mark.proves("TC-96")
def test_a_worker_killed_after_the_portal_acted_is_taken_over_and_nothing_is_bought_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = RunClock(tmp_path / "clock", start=NOON.timestamp())
    sandbox = PortalSandbox(clock=clock, folder=tmp_path, api_key=KEY)
    has_sold = threading.Event()
    sell = sandbox.orders.sell

    def watched(*args: Any) -> Order:
        order = sell(*args)
        has_sold.set()
        return order

    monkeypatch.setattr(sandbox.orders, "sell", watched)
    with (
        open_tables(tmp_path / "tables.db", clock=clock) as tables,
        serve_in_thread(build_portal_app(sandbox)) as url,
    ):
        stores = Stores(tables, clock=clock)

        async def offered() -> Offer:
            await create_tables(stores, TABLES)
            async with make_client(url, KEY) as http:
                found: Offer = await cheapest(HttpPortal(http, clock))
                return found

        offer = asyncio.run(offered())
        sandbox.faults = Faults(silent_after=1.0, silence_s=1.0)
        _killed_once(tmp_path, url, offer, has_sold)
        sandbox.faults = Faults()

        async def taken_over() -> Order:
            async with make_client(url, KEY) as http:
                portal = HttpPortal(http, clock)
                with pytest.raises(InProgress) as held:
                    await booked(stores, portal, offer)
                assert held.value.retry_after_s == LEASE_S
                clock.advance(LEASE_S)
                return await booked(stores, portal, offer)

        order = asyncio.run(taken_over())
    assert sold(sandbox) == [REFERENCE]
    [kept] = PortalSandbox(clock=clock, folder=tmp_path).orders.find_orders(REFERENCE)
    assert (kept.order_id, kept.pnr) == (order.order_id, order.pnr)


def _killed_once(folder: Path, url: str, offer: Offer, has_sold: threading.Event) -> None:
    module = "tests.unit.tripcortex.portal.booking_process"
    files = [str(folder / "tables.db"), str(folder / "clock")]
    told = [url, KEY, REFERENCE, offer.offer_id, str(offer.price_usd)]
    process = subprocess.Popen([sys.executable, "-m", module, *files, *told], cwd=ROOT)
    try:
        assert has_sold.wait(60)
    finally:
        process.kill()
        process.wait()
