"""Tests of the machine-readable policy: validation and look-up of its rows; distances and kinds of route."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from holdfast.core.errors import InvalidRequest
from holdfast_demo.tripcortex.sample.policy_document import build_policy_rules
from tests.cases import all_cases
from tests.systems.tripcortex.unit.policy_rules.trips import POLICY, RULES
from tripcortex.domain.policy_rules import STRICTEST, Reason, TravelPolicy
from tripcortex.domain.policy_rules.distances import (
    classify_route,
    compute_distance_km,
    estimate_flight_hours,
)
from tripcortex.domain.policy_rules.money import format_usd
from tripcortex.domain.policy_rules.travel_policy import SOFT_REASONS, Route
from tripcortex.model.entities import Cabin


def test_parses_json_text_and_parsed_json_alike() -> None:
    assert TravelPolicy.parse(json.dumps(RULES)) == TravelPolicy.parse(RULES)


def test_reads_the_sample_policy() -> None:
    policy = TravelPolicy.parse(build_policy_rules())
    assert (policy.version, policy.preferred_carriers.carriers) == ("2026-03", ("UA", "DL"))
    assert policy.approval.approver == ("line-manager",)
    assert policy.is_hard(Reason.cabin_above_policy) and not policy.is_hard(Reason.fare_above_cap)


def test_amounts_are_exact() -> None:
    policy = TravelPolicy.parse(
        '{"version": 1, "caps": [{"route": "domestic", "days_ahead_min": 0, "max_usd": 499.99}]}'
    )
    assert policy.caps[0].max_usd == Decimal("499.99")


@all_cases(
    ("changes", "message"),
    [
        ({"currency": "EUR"}, "EUR is not supported: amounts are not converted. Write them in USD"),
        ({"currency": "XXQ"}, "'XXQ' is not an ISO 4217 currency code"),
        ({"caps": [{"route": "domestic", "max_usd": -5}]}, "caps.0.max_usd"),
        ({"caps": [{"route": "domestic", "max_usd": "NaN"}]}, "caps.0.max_usd"),
        ({"caps": [{"route": "regional", "max_usd": 5}]}, "caps.0.route"),
        (
            {"caps": [{"route": "domestic", "max_usd": 5}, {"route": "domestic", "max_usd": 6}]},
            "two caps for domestic from 0 days ahead: keep one",
        ),
        (
            {"cabins": [{"cabin": "economy"}, {"cabin": "business"}]},
            "two cabins for the same duration",
        ),
        ({"cabins": [{"cabin": "steerage"}]}, "cabins.0.cabin"),
        ({"advance_purchase_days": {"hard": 14, "soft": 7}}, r"soft \(7\) must be at least hard \(14\)"),
        ({"hard_stops": ["cabin"]}, "hard_stops"),
        (
            {"prohibited": {"destinations": ["Moscow"]}},
            "'Moscow' is invalid: expected an airport such as SVO or a country",
        ),
        ({"approval": {"approver": []}}, "approval.approver"),
        ({"max_fare": 500}, "max_fare"),
    ],
)
def test_refuses_a_policy_and_says_which_rule_is_wrong(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        TravelPolicy.parse(RULES | changes)


@all_cases("source", ["[1]", "{", b"\xff", "", "12"])
def test_rejects_input_that_is_not_a_policy(source: str | bytes) -> None:
    with pytest.raises(InvalidRequest, match="not readable as JSON"):
        TravelPolicy.parse(source)


@all_cases(
    ("hours", "cabin"),
    [
        ("0.5", "economy"),
        ("5.99", "economy"),
        ("6", "premium_economy"),
        ("10", "business"),
        ("17", "business"),
    ],
)
def test_cabin_depends_on_hours_below_each_rows_limit(hours: str, cabin: str) -> None:
    rule = POLICY.find_cabin_rule(Decimal(hours))
    assert rule is not None and rule.cabin == cabin


def test_last_cabin_row_covers_longer_flights() -> None:
    policy = TravelPolicy.parse({"version": 1, "cabins": [{"max_duration_hours": 6, "cabin": "economy"}]})
    rule = policy.find_cabin_rule(Decimal(14))
    assert rule is not None and rule.cabin is Cabin.economy


@all_cases(("days", "most"), [(0, 650), (13, 650), (14, 500), (90, 500)])
def test_cap_is_that_of_the_longest_notice_met(days: int, most: int) -> None:
    cap = POLICY.find_fare_cap(Route.domestic, days)
    assert cap is not None and cap.max_usd == most


def test_cap_with_the_shortest_notice_applies_to_late_bookings() -> None:
    policy = TravelPolicy.parse(
        {
            "version": 1,
            "caps": [{"route": "domestic", "days_ahead_min": days, "max_usd": days} for days in (30, 7)],
        }
    )
    cap = policy.find_fare_cap(Route.domestic, 2)
    assert cap is not None and cap.days_ahead_min == 7
    assert policy.find_fare_cap(Route.long_haul, 2) is None


def test_strictest_defaults_limit_everything() -> None:
    assert {cap.route for cap in STRICTEST.caps} == set(Route)
    assert STRICTEST.find_cabin_rule(Decimal(20)) is not None
    assert all(STRICTEST.is_hard(reason) for reason in SOFT_REASONS)


@all_cases(
    ("origin", "destination", "route"),
    [
        ("SFO", "ORD", Route.domestic),
        ("JFK", "HNL", Route.domestic),
        ("LHR", "CDG", Route.short_haul),
        ("JFK", "LHR", Route.long_haul),
        ("HYD", "ORD", Route.long_haul),
    ],
)
@pytest.mark.proves("TC-X24")
def test_route_is_domestic_or_depends_on_distance(origin: str, destination: str, route: Route) -> None:
    assert classify_route(origin, destination) is route
    assert classify_route(destination, origin) is route


def test_estimates_hours_from_the_great_circle() -> None:
    # London to New York is 5,540 km; there is no shorter way.
    assert compute_distance_km("LHR", "JFK") == pytest.approx(5_540, rel=0.01)
    assert estimate_flight_hours("LHR", "JFK") == Decimal("7.0")
    assert estimate_flight_hours("HYD", "ORD") > 14


def test_rejects_an_unknown_airport() -> None:
    with pytest.raises(InvalidRequest, match="Invalid airport 'QQQ'"):
        classify_route("ORD", "QQQ")


@all_cases(("amount", "words"), [("1250", "$1,250"), ("1250.5", "$1,250.50"), ("99.00", "$99")])
def test_shows_cents_only_where_there_are_some(amount: str, words: str) -> None:
    assert format_usd(Decimal(amount)) == words
