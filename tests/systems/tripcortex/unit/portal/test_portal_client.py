"""Tests of the portal client over real HTTP: results, the meaning of each failure, no personal data."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import httpx2
import pytest

from holdfast.core.errors import ExternalServiceFailed, ExternalServiceRefused, HoldfastError, SettingsError
from holdfast.web import serve_in_thread
from holdfast.web.sandbox_faults import Faults
from holdfast_demo.tripcortex.sandbox.portal import build_portal_app
from tests.systems.tripcortex.unit.portal.portal_bench import (
    HASTE_S,
    KEY,
    REFERENCE,
    TO_CHICAGO,
    TRAVELLER,
    fail,
    find_cheapest,
    list_sold,
    make_sandbox,
    open_bench,
)
from tripcortex.integrations.portal.client import HttpPortal, open_portal, parse_response
from tripcortex.integrations.portal.ports import Offer, OrderStatus, Traveller
from tripcortex.model.entities import Preferences

PASSPORT = "P-4711-HOPPER"


async def test_offers_are_sorted_by_price_then_change_price_and_expire() -> None:
    async with open_bench(make_sandbox()) as (_, portal, clock):
        offers = await portal.search(TO_CHICAGO, Preferences())
        prices = [each.price_usd for each in offers]
        assert len(offers) > 3 and prices == sorted(prices)
        assert len({each.carrier for each in offers}) > 1
        first = offers[0]
        assert await portal.price(first.offer_id) == first
        moved = set()
        for _ in range(3):
            clock.wait(900)
            moved.add((await portal.price(first.offer_id)).price_usd)
        assert moved != {first.price_usd}
        clock.wait(900)
        with pytest.raises(ExternalServiceRefused) as refused:
            await portal.price(first.offer_id)
        assert refused.value.code == "offer_expired"


async def test_an_offer_becomes_an_option_with_its_end_and_its_flights() -> None:
    async with open_bench(make_sandbox()) as (_, portal, _):
        offer: Offer = await find_cheapest(portal)
        option = offer.to_option("opt-1")
        assert (option.offer_id, option.offer_expires_at) == (offer.offer_id, offer.expires_at)
        assert (option.price_usd, option.stops) == (offer.price_usd, len(option.outbound) - 1)
        assert option.outbound[0].origin == "HYD" and option.inbound[-1].destination == "HYD"
        longest = max(
            option.outbound[-1].arrives_at - option.outbound[0].departs_at,
            option.inbound[-1].arrives_at - option.inbound[0].departs_at,
        )
        assert timedelta(minutes=option.duration_minutes) == longest


async def test_order_has_its_booking_reference_and_ticket_numbers() -> None:
    async with open_bench(make_sandbox()) as (_, portal, clock):
        united = next(each for each in await portal.search(TO_CHICAGO, Preferences()) if each.carrier == "UA")
        order = await portal.book(REFERENCE, united.offer_id, TRAVELLER, united.price_usd)
        assert order.confirmation.startswith("UA-") and len(order.pnr) == 6 and order.pnr.isalnum()
        assert len(order.e_ticket_number) == 13 and order.e_ticket_number.startswith("016")
        assert await portal.look_up(REFERENCE) == (order,)
        assert await portal.look_up("another") == ()
        clock.wait(1)
        second = await portal.book(REFERENCE, united.offer_id, TRAVELLER, united.price_usd)
        # The look-up returns every order of the reference.
        assert await portal.look_up(REFERENCE) == (order, second)


async def test_an_order_is_void_within_a_day_later_has_a_fee_and_is_cancelled_once() -> None:
    far = TO_CHICAGO.model_copy(
        update={
            "departure_date": TO_CHICAGO.departure_date + timedelta(days=30),
            "return_date": None,
        }
    )
    async with open_bench(make_sandbox(price_step_s=0.0)) as (_, portal, clock):
        offer = await find_cheapest(portal, far)
        order = await portal.book(REFERENCE, offer.offer_id, TRAVELLER, offer.price_usd)
        with pytest.raises(ExternalServiceRefused) as unknown:
            await portal.cancel(order.model_copy(update={"order_id": "ORD-of-nobody"}))
        assert unknown.value.code == "unknown_order"
        ended = await portal.cancel(order)
        assert (ended.is_void, ended.refund_usd) == (True, offer.price_usd)
        assert await portal.cancel(order) == ended
        [found] = await portal.look_up(REFERENCE)
        assert found.status is OrderStatus.cancelled
        again = await find_cheapest(portal, far)
        second = await portal.book("second", again.offer_id, TRAVELLER, again.price_usd)
        clock.wait(86_401)
        late = await portal.cancel(second)
        assert not late.is_void and Decimal(0) < late.refund_usd < again.price_usd


@pytest.mark.parametrize(
    ("faults", "may_be_done"),
    [
        (Faults(too_many=1.0), False),
        (Faults(failed_before=1.0), True),
        (Faults(failed_after=1.0), True),
        (None, True),
    ],
    ids=["429", "503", "500", "silence"],
)
async def test_failed_purchase_says_whether_it_may_have_happened(
    faults: Faults | None, may_be_done: bool
) -> None:
    sandbox = make_sandbox()
    async with open_bench(sandbox) as (_, portal, clock):
        offer = await find_cheapest(portal)
        asked = portal if faults else HttpPortal(portal.http, clock, HASTE_S)
        with fail(sandbox, faults), pytest.raises(ExternalServiceFailed) as failed:
            await asked.book(REFERENCE, offer.offer_id, TRAVELLER, offer.price_usd)
        assert failed.value.may_be_done is may_be_done


async def test_failed_search_is_retryable_and_a_wrong_key_says_to_fix_the_key() -> None:
    async with open_bench(make_sandbox(is_down=True)) as (_, portal, _):
        with pytest.raises(ExternalServiceFailed) as failed:
            await portal.search(TO_CHICAGO, Preferences())
        assert not failed.value.may_be_done
    async with open_bench(make_sandbox(), key="wrong-key") as (_, portal, _):
        with pytest.raises(ExternalServiceFailed, match="Fix the API key") as failed:
            await portal.search(TO_CHICAGO, Preferences())
        assert "wrong-key" not in str(failed.value)


@pytest.mark.parametrize(
    ("traveller", "price", "code"),
    [
        (Traveller(traveller_id="emp-9-declined"), None, "payment_failed"),
        (Traveller(traveller_id="emp-9", payment="declined-account"), None, "payment_failed"),
        (TRAVELLER, Decimal("1.00"), "price_changed"),
    ],
)
async def test_refused_purchase_raises_the_portals_code_and_sells_nothing(
    traveller: Traveller, price: Decimal | None, code: str
) -> None:
    sandbox = make_sandbox()
    async with open_bench(sandbox) as (_, portal, _):
        offer = await find_cheapest(portal)
        with pytest.raises(ExternalServiceRefused) as refused:
            await portal.book(REFERENCE, offer.offer_id, traveller, price or offer.price_usd)
        assert refused.value.code == code
        with pytest.raises(ExternalServiceRefused) as unknown:
            await portal.price("OF-of-nobody")
        assert unknown.value.code == "unknown_offer"
    assert list_sold(sandbox) == []


async def test_opens_the_configured_portal_with_the_secret_key(monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox = make_sandbox()

    async def search() -> int:
        async with open_portal(sandbox.clock) as portal:
            return len(await portal.search(TO_CHICAGO, Preferences()))

    monkeypatch.delenv("TRIPCORTEX_PORTAL_URL", raising=False)
    with pytest.raises(SettingsError, match="set TRIPCORTEX_PORTAL_URL"):
        await search()
    monkeypatch.setenv("TRIPCORTEX_PORTAL_URL", "http://travel.example.com")
    with pytest.raises(SettingsError, match="TRIPCORTEX_PORTAL_URL must be HTTPS"):
        await search()
    with serve_in_thread(build_portal_app(sandbox)) as url:
        monkeypatch.setenv("TRIPCORTEX_PORTAL_URL", url)
        monkeypatch.delenv("HOLDFAST_SECRET_TRIPCORTEX_PORTAL_KEY", raising=False)
        with pytest.raises(ExternalServiceFailed, match="Fix the API key"):
            await search()
        monkeypatch.setenv("HOLDFAST_SECRET_TRIPCORTEX_PORTAL_KEY", KEY)
        assert await search()


ORDER: dict[str, Any] = {
    "reference": REFERENCE,
    "order_id": "ORD-1",
    "offer_id": "OF-1",
    "carrier": "UA",
    "pnr": "ABC123",
    "e_ticket_number": "0162400000001",
    "price_usd": "450.00",
    "booked_at": "2026-03-10T12:00:00Z",
    "passenger": PASSPORT,
}


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, {"error": f"passport {PASSPORT} is not valid"}, ExternalServiceRefused),
        (409, {"error": PASSPORT}, ExternalServiceFailed),
        (200, ORDER | {"pnr": PASSPORT}, ExternalServiceFailed),
        (200, ORDER | {"reference": "of-another"}, ExternalServiceFailed),
        (200, [PASSPORT], ExternalServiceFailed),
    ],
    ids=["a refusal", "a conflict", "a locator that is none", "another's order", "a list"],
)
async def test_errors_contain_no_personal_data_from_the_portal(status: int, body: Any, kind: type) -> None:
    with pytest.raises(HoldfastError) as failed:
        await _request_with_response(status, body)
    assert type(failed.value) is kind
    assert PASSPORT not in repr(failed.value) + str(failed.value.__cause__)


async def test_order_omits_unknown_portal_fields() -> None:
    order = await _request_with_response(201, ORDER)
    assert order.confirmation == "UA-ABC123"
    assert PASSPORT not in order.model_dump_json()


async def _request_with_response(status: int, body: Any) -> Any:
    """Book at a portal that always answers with this status and body; check the idempotency key."""

    async def answer(request: httpx2.Request) -> httpx2.Response:
        assert request.headers["idempotency-key"] == REFERENCE
        return httpx2.Response(status, json=body)

    async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer), base_url="http://portal") as http:
        return await HttpPortal(http).book(REFERENCE, "OF-1", TRAVELLER, Decimal("450.00"))


OFFER: dict[str, Any] = {
    "offer_id": "OF-1",
    "expires_at": "2026-03-10T13:00:00Z",
    "carrier": "UA",
    "carrier_name": "United Airlines",
    "cabin": "economy",
    "price_usd": "450.00",
    "outbound": [
        {
            "carrier": "UA",
            "flight_number": "UA-1",
            "origin": "BOS",
            "destination": "ORD",
            "departs_at": "2026-03-17T08:00:00-04:00",
            "arrives_at": "2026-03-17T10:00:00-05:00",
            "duration_minutes": 180,
        }
    ],
}
LEG: dict[str, Any] = OFFER["outbound"][0]


@pytest.mark.parametrize(
    "odd",
    [
        {"price_usd": "354.2100000000000000000000000000000000000001"},
        {"price_usd": "1" + "0" * 40},
        {"expires_at": "2026-03-10T13:00:00"},
        {"carrier_name": "N" * 250_000},
        {"offer_id": "N" * 250_000},
        {"outbound": [LEG] * 1000},
        {"outbound": [LEG | {"departs_at": "2026-03-17T08:00:00"}]},
        {"outbound": [LEG | {"duration_minutes": 10**40}]},
        {"outbound": [LEG | {"flight_number": "N" * 250_000}]},
    ],
    ids=lambda odd: f"{next(iter(odd))} {str(next(iter(odd.values())))[:24]}",
)
def test_offer_that_cannot_be_stored_is_an_invalid_response(odd: dict[str, Any]) -> None:
    assert parse_response(Offer, OFFER, changes=False).stops == 0
    with pytest.raises(ExternalServiceFailed, match="sent an invalid response") as failed:
        parse_response(Offer, OFFER | odd, changes=False)
    assert not failed.value.may_be_done
    assert len(str(failed.value)) < 2_000


@pytest.mark.parametrize(
    "odd",
    [{"price_usd": "1e50"}, {"booked_at": "2026-03-10T12:00:00"}, {"order_id": "N" * 250_000}],
    ids=["a price", "a time without a zone", "an id"],
)
async def test_order_that_cannot_be_stored_may_have_been_bought(odd: dict[str, Any]) -> None:
    with pytest.raises(ExternalServiceFailed, match="sent an invalid response") as failed:
        await _request_with_response(201, ORDER | odd)
    assert failed.value.may_be_done
