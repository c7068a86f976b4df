"""Unit tests of compensation, care, refunds and the baggage limit, with the numbers of the regulations."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skymarshal.domain.airports import get_airports
from skymarshal.domain.passenger_rights import (
    DisruptedJourney,
    Money,
    RegimeName,
    Reroute,
    compute_exposure,
    find_regime,
    get_baggage_limit,
)
from skymarshal.domain.statuses import DisruptionKind
from tests.cases import all_cases

HOUR = timedelta(hours=1)
TO_ABU_DHABI = DisruptedJourney(origin="FRA", destination="AUH", carrier="EY", arrival_delay=5 * HOUR)
CANCELLED = replace(TO_ABU_DHABI, kind=DisruptionKind.CANCEL, arrival_delay=0 * HOUR)


@all_cases(
    ("origin", "destination", "hours", "amount"),
    [
        ("CDG", "FRA", 2.99, "0"),
        ("CDG", "FRA", 3, "250"),
        ("CDG", "ATH", 3, "400"),
        ("FRA", "TLV", 3, "400"),
        ("LIS", "LCA", 5, "400"),  # 3,700 km, but inside the Union
        ("FRA", "AUH", 3, "300"),  # halved below four hours
        ("FRA", "AUH", 3.99, "300"),
        ("FRA", "AUH", 4, "600"),
        ("FRA", "AUH", 24, "600"),
    ],
)
def test_compensates_a_delay_by_distance_and_hours(
    origin: str, destination: str, hours: float, amount: str
) -> None:
    journey = replace(TO_ABU_DHABI, origin=origin, destination=destination, arrival_delay=hours * HOUR)

    assert compute_exposure(journey).per_passenger == Money(Decimal(amount), "EUR")


@all_cases(
    ("destination", "hours", "amount"),
    [("EDI", 3, "220"), ("TUN", 3, "350"), ("AUH", 3.5, "260"), ("AUH", 4, "520")],
)
def test_uk_pays_the_same_bands_in_pounds(destination: str, hours: float, amount: str) -> None:
    journey = replace(TO_ABU_DHABI, origin="LHR", destination=destination, arrival_delay=hours * HOUR)

    assert compute_exposure(journey).per_passenger == Money(Decimal(amount), "GBP")


@all_cases(
    ("origin", "destination", "carrier", "regime"),
    [
        ("FRA", "AUH", "EY", "EU261"),
        ("AUH", "FRA", "EY", None),
        ("AUH", "FRA", "LH", "EU261"),
        ("ZRH", "AUH", "EY", "EU261"),
        ("LHR", "AUH", "EY", "UK261"),
        ("AUH", "LHR", "EY", None),
        ("AUH", "LHR", "BA123", "UK261"),
        ("AUH", "LHR", "LH", "UK261"),
        ("LHR", "FRA", "LH", "UK261"),
        ("FRA", "LHR", "BA", "EU261"),
        ("JFK", "FRA", "BA", "UK261"),
        ("AUH", "BOM", "EY", None),
    ],
)
def test_regime_covers_all_departures_but_arrivals_only_with_some_carriers(
    origin: str, destination: str, carrier: str, regime: RegimeName | None
) -> None:
    assert find_regime(origin, destination, carrier) == regime


@all_cases(
    ("notice_days", "reroute", "amount"),
    [
        (14, None, "0"),
        (13, None, "600"),
        (7, Reroute(departs_early=2 * HOUR, arrives_late=3.9 * HOUR), "0"),
        (7, Reroute(departs_early=2.1 * HOUR, arrives_late=3.9 * HOUR), "300"),
        (7, Reroute(arrives_late=4 * HOUR), "300"),
        (7, Reroute(arrives_late=4.1 * HOUR), "600"),
        (6, Reroute(departs_early=1 * HOUR, arrives_late=1.9 * HOUR), "0"),
        (6, Reroute(arrives_late=2 * HOUR), "300"),
        (0, None, "600"),
    ],
)
def test_compensates_a_cancellation_by_notice_and_rerouting(
    notice_days: int, reroute: Reroute | None, amount: str
) -> None:
    found = compute_exposure(replace(CANCELLED, notice_days=notice_days, reroute=reroute))

    assert found.per_passenger.amount == Decimal(amount)


def test_extraordinary_cause_excuses_compensation_but_not_care() -> None:
    storm = compute_exposure(replace(TO_ABU_DHABI, delay_code="71"), passengers=412)
    defect = compute_exposure(replace(TO_ABU_DHABI, delay_code="41"), passengers=412)

    assert storm.total.amount == 0
    assert "Article 5(3)" in storm.rule
    assert storm.care_due
    assert defect.total == Money(Decimal(412 * 600), "EUR")


@all_cases(
    ("destination", "hours", "due"),
    [
        ("CDG", 1.9, False),
        ("CDG", 2, True),
        ("ATH", 2.9, False),
        ("ATH", 3, True),
        ("AUH", 3.9, False),
        ("AUH", 4, True),
    ],
)
def test_care_is_due_after_two_to_four_hours_by_distance(destination: str, hours: float, due: bool) -> None:
    journey = replace(TO_ABU_DHABI, destination=destination, departure_delay=hours * HOUR)

    assert compute_exposure(journey).care_due is due


@all_cases(
    ("origin", "destination", "kind", "hours", "due"),
    [
        ("FRA", "AUH", "delay", 4.9, False),
        ("FRA", "AUH", "delay", 5, True),
        ("FRA", "AUH", "cancel", 0, True),
        ("JFK", "LAX", "delay", 2.9, False),
        ("JFK", "LAX", "delay", 3, True),
        ("AUH", "JFK", "delay", 5.9, False),
        ("AUH", "JFK", "delay", 6, True),
        ("AUH", "JFK", "cancel", 0, True),
        ("AUH", "BOM", "delay", 12, False),
    ],
)
def test_refunds_the_fare_by_the_law_of_the_route(
    origin: str, destination: str, kind: str, hours: float, due: bool
) -> None:
    journey = DisruptedJourney(
        origin=origin,
        destination=destination,
        carrier="EY",
        kind=DisruptionKind(kind),
        arrival_delay=hours * HOUR,
    )

    assert compute_exposure(journey).refund_due is due


def test_late_arrival_after_a_punctual_departure_is_compensated_without_care() -> None:
    found = compute_exposure(replace(TO_ABU_DHABI, arrival_delay=20 * HOUR, departure_delay=0 * HOUR))

    assert found.per_passenger.amount == 600
    assert not found.care_due


def test_late_departure_that_catches_up_is_refunded_in_the_us() -> None:
    journey = DisruptedJourney(origin="AUH", destination="JFK", carrier="EY", departure_delay=6 * HOUR)

    assert compute_exposure(journey).refund_due
    assert "14 CFR part 260" in compute_exposure(journey).refund_rule
    assert not compute_exposure(replace(journey, destination="BOM")).refund_due


def test_lost_baggage_is_capped_by_the_montreal_convention() -> None:
    assert get_baggage_limit(2) == Money(Decimal(3038), "XDR")


def test_refuses_negative_passengers() -> None:
    with pytest.raises(ValueError, match="0 or more"):
        compute_exposure(TO_ABU_DHABI, -1)


@given(
    st.sampled_from(sorted(get_airports())),
    st.sampled_from(sorted(get_airports())),
    st.sampled_from(["EY", "LH", "BA"]),
    st.integers(0, 48),
    st.integers(0, 500),
)
def test_longer_delay_never_costs_less_and_total_is_the_sum(
    origin: str, destination: str, carrier: str, hours: int, passengers: int
) -> None:
    journey = DisruptedJourney(
        origin=origin, destination=destination, carrier=carrier, arrival_delay=hours * HOUR
    )
    found = compute_exposure(journey, passengers)
    longer = compute_exposure(replace(journey, arrival_delay=(hours + 1) * HOUR), passengers)

    assert found.total.amount == found.per_passenger.amount * passengers
    assert found.total.amount <= longer.total.amount
    assert (found.total.amount == 0) or found.regime is not None
