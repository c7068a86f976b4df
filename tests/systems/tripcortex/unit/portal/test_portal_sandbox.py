"""Tests of the sandbox portal: flights and fares by seed and clock, refusals, faults, and its ledger."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.web import serve_in_thread
from holdfast_demo.tripcortex.sandbox.portal import PortalSandbox, build_portal_app
from holdfast_demo.tripcortex.sandbox.portal_ledger import FILE_NAME, PortalLedger
from holdfast_demo.tripcortex.sandbox.portal_timetable import (
    LAYOVER_MINUTES,
    NotFlown,
    Timetable,
    TripRequest,
    compute_distance_km,
    get_airport,
    parse_offer_id,
)
from tests.systems.tripcortex.unit.portal.portal_bench import KEY, NOON, HandClock, list_sold, make_sandbox
from tripcortex.model.entities import Cabin

NOW = NOON.timestamp()
PLACES = st.sampled_from("HYD ORD MDW JFK SFO LHR FRA CDG DXB SIN NRT SYD GRU NBO ANC PBI KTM".split())
SEARCH: dict[str, Any] = {
    "origins": ["HYD"],
    "destinations": ["ORD", "MDW"],
    "departure_date": "2026-03-17",
    "return_date": "2026-03-19",
    "cabin": "economy",
}


@given(PLACES, PLACES, st.integers(0, 300), st.integers(0, 20), st.sampled_from(list(Cabin)))
def test_plausible_flights_connect_any_two_airports_on_any_day(
    origin: str, destination: str, days: int, stay: int, cabin: Cabin
) -> None:
    if origin == destination:
        return
    out = NOON.date() + timedelta(days=days)
    asked = TripRequest(origin, destination, out, out + timedelta(days=stay), cabin)
    offers = list(Timetable().list_offers(asked, NOW))
    assert offers and offers == list(Timetable().list_offers(asked, NOW))
    assert len({each.offer_id for each in offers}) == len(offers)
    for offer in offers:
        assert offer.outbound[0].departs_at.date() == out
        assert (offer.outbound[0].origin, offer.outbound[-1].destination) == (origin, destination)
        for legs in (offer.outbound, offer.inbound):
            for leg in legs:
                flown = leg.arrives_at - leg.departs_at
                assert flown == timedelta(minutes=leg.duration_minutes)
                km = compute_distance_km(get_airport(leg.origin), get_airport(leg.destination))
                assert km / 1000 * 60 < leg.duration_minutes < km / 700 * 60 + 60
                zone = get_airport(leg.destination).zone
                assert leg.arrives_at.utcoffset() == leg.arrives_at.astimezone(zone).utcoffset()
            for before, after in pairwise(legs):
                wait = after.departs_at - before.arrives_at
                assert before.destination == after.origin
                assert LAYOVER_MINUTES[0] - 5 <= wait.total_seconds() / 60 <= LAYOVER_MINUTES[1]
        known = parse_offer_id(offer.offer_id)
        assert known is not None
        assert Timetable().get_offer(*known, NOW) == offer


def test_fares_rise_with_the_cabin_and_near_departure() -> None:
    def fare(days: int, cabin: Cabin) -> float:
        asked = TripRequest("JFK", "LHR", NOON.date() + timedelta(days=days), None, cabin)
        return float(min(each.price_usd for each in Timetable(price_step_s=0).list_offers(asked, NOW)))

    by_cabin = [fare(30, cabin) for cabin in Cabin]
    assert by_cabin == sorted(set(by_cabin))
    by_notice = [fare(days, Cabin.economy) for days in (30, 15, 8, 4, 1)]
    assert by_notice == sorted(set(by_notice))


def test_price_is_constant_within_a_step_and_then_moves_within_bounds() -> None:
    asked = TripRequest("JFK", "LHR", date(2026, 4, 20), None, Cabin.economy)
    stood, moving = Timetable(price_step_s=0), Timetable(price_step_s=900)
    base = {each.offer_id.rpartition("-")[0]: each.price_usd for each in stood.list_offers(asked, NOW)}
    seen = set()
    for step in range(40):
        at = NOW + 900 * step
        prices = [each.price_usd for each in moving.list_offers(asked, at)]
        assert prices == [each.price_usd for each in moving.list_offers(asked, at + 899)]
        for each in moving.list_offers(asked, at):
            factor = each.price_usd / base[each.offer_id.rpartition("-")[0]]
            assert 0.93 < factor < 1.09
            seen.add(round(factor, 2))
    assert len(seen) > 10


def test_local_times_follow_daylight_saving_time() -> None:
    """New York's clocks go forward on the 8th of March 2026, London's on the 29th."""

    def hours(day: date) -> float:
        offer = next(Timetable().list_offers(TripRequest("JFK", "LHR", day, None, Cabin.economy), NOW))
        leg = offer.outbound[0]
        return (
            leg.arrives_at.replace(tzinfo=UTC) - leg.departs_at.replace(tzinfo=UTC)
        ).total_seconds() / 3600

    assert hours(date(2026, 3, 20)) == hours(date(2026, 4, 20)) - 1


def test_rejects_an_invalid_offer_id() -> None:
    real = next(
        Timetable().list_offers(TripRequest("JFK", "LHR", date(2026, 4, 20), None, Cabin.first), NOW)
    ).offer_id
    assert parse_offer_id(real)
    for wrong in (
        "",
        real + "0" * 9,
        real.replace("JFK", "XXX"),
        real.replace("JFK", "LHR"),
        real.replace("20260420", "20261399"),
        real.replace("first", "royal"),
    ):
        assert parse_offer_id(wrong) is None
    with pytest.raises(NotFlown):
        get_airport("XXX")


def test_rejects_an_invalid_search_with_a_code() -> None:
    with (
        serve_in_thread(build_portal_app(make_sandbox(api_key=""))) as url,
        httpx2.Client(base_url=url) as http,
    ):

        def search(**changes: Any) -> tuple[int, Any]:
            answer = http.post("/v1/searches", json=SEARCH | changes)
            return answer.status_code, answer.json().get("error")

        assert search() == (200, None)
        assert search(destinations=["HYD"]) == (422, "not_flown")
        assert search(destinations=["XXX"]) == (422, "not_flown")
        assert search(origins=["XXX"]) == (422, "not_flown")
        assert search(departure_date="2026-03-09") == (422, "not_flown")
        assert search(return_date="2026-03-16") == (422, "not_flown")
        assert search(return_date="2027-06-01") == (422, "not_flown")
        assert search(cabin="royal") == (400, "invalid_request")
        assert search(surprise=1) == (400, "invalid_request")
        assert http.post("/v1/searches", content=b"{").json()["error"] == "invalid_request"
        assert search(nonstop=True)[0] == 200
        nonstop = http.post("/v1/searches", json=SEARCH | {"nonstop": True}).json()["offers"]
        assert nonstop and all(len(each["outbound"]) == 1 for each in nonstop)
        today = http.post("/v1/searches", json=SEARCH | {"departure_date": "2026-03-10"}).json()["offers"]
        leaves = [datetime.fromisoformat(each["outbound"][0]["departs_at"]) for each in today]
        assert all(each > NOON for each in leaves)


def test_the_same_reference_twice_is_sold_twice_and_the_ledger_shows_it() -> None:
    sandbox = make_sandbox()
    headers = {"x-api-key": KEY}
    with (
        serve_in_thread(build_portal_app(sandbox)) as url,
        httpx2.Client(base_url=url, headers=headers) as http,
    ):
        assert httpx2.post(f"{url}/v1/searches", json=SEARCH).status_code == 401
        offer = http.post("/v1/searches", json=SEARCH).json()["offers"][0]
        order = {
            "reference": "trip-1",
            "offer_id": offer["offer_id"],
            "price_usd": offer["price_usd"],
            "traveller_id": "emp-42",
            "payment": "company-account",
        }
        first, second = (http.post("/v1/orders", json=order) for _ in range(2))
        assert (first.status_code, second.status_code) == (201, 201)
        assert first.json()["pnr"] != second.json()["pnr"]
        assert len(http.get("/v1/orders", params={"reference": "trip-1"}).json()["orders"]) == 2
        lines = http.get("/sandbox/ledger").json()["ledger"]
        assert [each["reference"] for each in lines] == ["trip-1", "trip-1"]
        assert "<td>trip-1</td>" in http.get("/").text
    assert list_sold(sandbox) == ["trip-1", "trip-1"]


def test_control_endpoints_set_outage_faults_prices_and_declined_payments() -> None:
    sandbox = make_sandbox(api_key="")
    with serve_in_thread(build_portal_app(sandbox)) as url, httpx2.Client(base_url=url) as http:
        http.post("/sandbox/outage", json={"is_down": True}).raise_for_status()
        assert http.post("/v1/searches", json=SEARCH).status_code == 503
        http.post("/sandbox/outage", json={"is_down": False}).raise_for_status()
        http.post("/sandbox/faults", json={"too_many": 1}).raise_for_status()
        assert http.post("/v1/searches", json=SEARCH).status_code == 429
        http.post("/sandbox/faults", json={}).raise_for_status()
        before = http.post("/v1/searches", json=SEARCH).json()["offers"][0]
        http.post("/sandbox/prices", json={"factor": "2"}).raise_for_status()
        after = http.get(f"/v1/offers/{before['offer_id']}").json()
        assert float(after["price_usd"]) == pytest.approx(2 * float(before["price_usd"]))
        http.post("/sandbox/payments", json={"declined": ["emp-7"]}).raise_for_status()
        assert sandbox.declined == {"emp-7"}
        assert http.post("/sandbox/prices", json={"factor": 0}).status_code == 400


def test_ledger_survives_restarts_and_ignores_a_truncated_line(tmp_path: Path) -> None:
    clock = HandClock()
    ledger = PortalLedger(clock, tmp_path)
    offer = next(
        Timetable().list_offers(TripRequest("JFK", "LHR", date(2026, 4, 20), None, Cabin.economy), NOW)
    )
    first = ledger.sell("trip-1", offer, "emp-42")
    ledger.sell("trip-2", offer, "emp-43")
    ended = ledger.cancel(first.order_id)
    with (tmp_path / FILE_NAME).open("ab") as file:
        file.write(b'{"number": 4, "what": "ord')
    again = PortalSandbox(clock=clock, folder=tmp_path).orders
    assert again.entries == ledger.entries and again.orders == ledger.orders
    assert again.cancel(first.order_id) == ended
    assert again.count_sold(offer) == 2
    third = again.sell("trip-3", offer, "emp-44")
    assert PortalLedger(clock, tmp_path).find_orders("trip-3") == [third]
    assert ledger.cancel("ORD-of-nobody") is None
