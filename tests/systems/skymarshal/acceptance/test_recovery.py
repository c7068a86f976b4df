"""The claims and recovery options in reports on small airlines and on the sample, with their costs."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from holdfast import Stores
from skymarshal.disruptions.report import OptionProposed, Report
from skymarshal.domain.recovery_options import COSTS
from skymarshal.domain.statuses import BookingStatus, WorkOrderStatus
from skymarshal.model import patterns
from skymarshal.model.entities import Flight
from tests.cases import all_cases
from tests.systems.skymarshal.acceptance.small_airline import (
    DISRUPTIONS,
    EVENING_BEFORE,
    Airline,
    at,
    booking,
    cargo,
    flight,
    open_airline,
    work_order,
)

PEOPLE = tuple(booking(f"B{n}", f"P{n}") for n in range(10))
LONDON_OUT = flight()
LONDON_BACK = flight("1", "EY12", "LHR-AUH", at(12), at(18, 50))
FRANKFURT_BACK = flight("1", "EY2", "FRA-AUH", at(12), at(18))
VIENNA = flight("1", "EY5", "FRA-VIE", at(12), at(13, 20))
AMMAN = flight("1", "EY7", "VIE-AMM", at(12), at(15, 30))


def get_option(report: Report, id: str) -> OptionProposed:
    """Return the proposed option with this id."""
    return next(each for each in report.options.proposed if each.id == id)


# --- claims -------------------------------------------------------------------------------------------------


@all_cases(
    ("leg", "minutes", "regime", "each", "rule"),
    [
        (LONDON_OUT, 600, None, "0", "Neither EU261 nor UK261 applies"),
        (LONDON_BACK, 179, "UK261", "0", "under 3 hours late"),
        (LONDON_BACK, 180, "UK261", "260", "halved, under 4 hours late"),
        (LONDON_BACK, 240, "UK261", "520", "520 for longer flights"),
        (FRANKFURT_BACK, 239, "EU261", "300", "halved"),
        (FRANKFURT_BACK, 240, "EU261", "600", "600 for longer flights"),
        (VIENNA, 180, "EU261", "250", "250 for up to 1500 km"),
        (AMMAN, 180, "EU261", "400", "400 for up to 3500 km"),
    ],
)
def test_compensation_depends_on_route_carrier_distance_and_delay(
    leg: Flight, minutes: int, regime: str | None, each: str, rule: str
) -> None:
    with open_airline(leg, *PEOPLE) as airline:
        section = airline.assess("delay", delay_minutes=minutes, delay_code="41").compensation
    (group,) = section.claimants
    assert (section.regime, group.per_passenger, section.total) == (regime, Decimal(each), Decimal(each) * 10)
    assert rule in section.rule and group.passengers == 10


@all_cases(
    ("members", "each", "rule"),
    [
        ({"delay_code": "71"}, "0", "normally extraordinary"),
        ({"delay_code": "41"}, "520", "Articles 5(1)(c) and 7(1)"),
        ({"known_at": at(12) - timedelta(days=14)}, "0", "14 days of notice"),
        ({"known_at": at(12, 1) - timedelta(days=14)}, "520", "Articles 5(1)(c) and 7(1)"),
    ],
)
def test_cancellation_is_compensated_unless_excused(members: dict[str, Any], each: str, rule: str) -> None:
    with open_airline(LONDON_BACK, *PEOPLE) as airline:
        section = airline.assess("cancel", **members).compensation
    assert section.total == Decimal(each) * 10 and rule in section.rule
    assert section.refund_due and section.currency == "GBP" and section.care_due


def test_missed_connection_is_compensated_as_a_delay_of_a_day() -> None:
    onward = flight("2", "EY204", "AUH-BOM", at(20, 20), at(23, 35), "A6-BLB")
    with open_airline(
        LONDON_BACK, *PEOPLE, onward, booking("C1", "P1", "2"), booking("C2", "P2", "2")
    ) as airline:
        section = airline.assess("delay", delay_minutes=120, delay_code="41").compensation
    assert [(each.who, each.passengers, each.per_passenger) for each in section.claimants] == [
        ("passengers arriving with the flight", 8, Decimal(0)),
        ("passengers missing a connection", 2, Decimal(520)),
    ]
    assert section.total == Decimal(1040)
    assert section.rule == section.claimants[1].rule


def test_denied_boarding_is_compensated_whatever_the_cause() -> None:
    people = [booking(f"B{n}", f"P{n}") for n in range(200)]
    with open_airline(LONDON_BACK, *people) as airline:
        section = airline.assess("swap", swap_to="A6-AEA", delay_code="71").compensation
    assert [(each.who, each.passengers, each.per_passenger) for each in section.claimants] == [
        ("passengers arriving with the flight", 196, Decimal(0)),
        ("passengers denied boarding", 4, Decimal(520)),
    ]
    assert section.total == 4 * Decimal(520)


def test_no_care_is_due_where_neither_eu261_nor_uk261_applies() -> None:
    onward = flight("2", "EY6411", "LHR-EDI", at(11, 20), at(12, 45), "G-EUYA")
    with open_airline(LONDON_OUT, *PEOPLE, onward, booking("C1", "P1", "2")) as airline:
        section = airline.assess("delay", delay_minutes=240).compensation
    assert section.claimants[1].passengers == 1
    assert not section.care_due


# --- other flights ------------------------------------------------------------------------------------------


def _make_later_flight(flight_id: str, number: str, hour: int, seats: int, **more: Any) -> Flight:
    """Make a flight from AUH to LHR that departs at this hour, with this many seats."""
    return flight(flight_id, number, "AUH-LHR", at(hour), at(hour + 7, 40), "G-EUYA", capacity=seats, **more)


def test_cancelling_rebooks_passengers_on_later_flights() -> None:
    rows = (
        _make_later_flight("2", "EY19", 6, 4),
        booking("X1", "Q1", "2"),
        booking("X2", "Q2", "2", BookingStatus.CHECKED_IN),
        booking("X3", "Q3", "2", BookingStatus.WAITLISTED),
        _make_later_flight("3", "EY17", 10, 5),
    )
    with open_airline(LONDON_OUT, *PEOPLE, *rows) as airline:
        cancel = get_option(airline.assess("cancel"), "cancel")
    # Two seats on EY19 and five on EY17; three passengers find none.
    assert (cancel.title, cancel.passengers_carried) == ("Cancel, re-accommodate 7 of 10", 7)
    lines = {line.label: line.amount for line in cancel.breakdown}
    assert lines["rebooking"] == 7 * COSTS.rebooking
    assert lines["hotel"] == 3 * COSTS.hotel_night
    assert lines["refunds"] == 3 * COSTS.refund


@all_cases(
    ("other", "known_at"),
    [
        (_make_later_flight("2", "EY19", 6, 50, flight_status=patterns.CANCELLED), EVENING_BEFORE),
        (_make_later_flight("2", "EY19", 1, 50), EVENING_BEFORE),  # leaves before
        (_make_later_flight("2", "EY19", 6, 50), at(6, 1)),  # gone when the disruption became known
        (_make_later_flight("2", "EY12", 6, 50), EVENING_BEFORE),  # a number of another route
    ],
)
def test_rebooks_only_on_flights_that_can_be_caught(other: Flight, known_at: datetime) -> None:
    with open_airline(LONDON_OUT, *PEOPLE, other) as airline:
        assert get_option(airline.assess("cancel", known_at=known_at), "cancel").passengers_carried == 0


# --- other aircraft -----------------------------------------------------------------------------------------


def test_free_aircraft_takes_the_flight_on_time() -> None:
    with open_airline(LONDON_OUT, *PEOPLE, cargo("A1", "1000")) as airline:
        report = airline.assess("delay", delay_minutes=240)
    swap = next(each for each in report.options.proposed if each.kind == "swap")
    assert (swap.rank, swap.delay_minutes, swap.passengers_carried) == (1, 0, 10)
    assert swap.cost == COSTS.aircraft_swap
    assert get_option(report, "delay").delay_minutes == 240
    # A freighter does not replace a passenger aircraft.
    assert "A6-DDA" not in {each.aircraft_registration for each in report.options.proposed}


def _list_swap_blockers(*rows: Any, **request: Any) -> list[str]:
    """Return the blockers of a requested swap to A6-BLB, with these further rows stored."""
    with open_airline(LONDON_OUT, *PEOPLE, *rows) as airline:
        return get_option(airline.assess("swap", swap_to="A6-BLB", **request), "swap-A6-BLB").blockers


@all_cases(
    ("row", "blocker"),
    [
        (
            flight("9", "EY454", "AUH-SYD", at(19, 49), at(33), "A6-BLB"),
            "A6-BLB flies EY454 at 30 Jan 19:49Z, before it would be back.",
        ),
        (flight("9", "EY204", "AUH-BOM", at(-8), at(-5), "A6-BLB"), "A6-BLB is at BOM, not at AUH."),
        (work_order("WO-7", "A6-BLB"), "A6-BLB is grounded by work order WO-7."),
    ],
)
def test_requested_aircraft_is_proposed_with_its_blockers(row: Any, blocker: str) -> None:
    assert _list_swap_blockers(row) == [blocker]


@all_cases(
    "row",
    [
        # Back by 19:50 at the earliest: 7:40 each way and three turnarounds of 1:15, the last before its
        # next flight.
        flight("9", "EY454", "AUH-SYD", at(19, 50), at(33), "A6-BLB"),
        work_order("WO-7", "A6-BLB", WorkOrderStatus.CLOSED),
        work_order("WO-7", "A6-BLB", WorkOrderStatus.DEFERRED),
        flight("9", "EY454", "AUH-SYD", at(12), at(26), "A6-BLB", flight_status=patterns.CANCELLED),
    ],
)
def test_later_flights_and_work_that_is_closed_or_deferred_are_not_blockers(row: Any) -> None:
    assert _list_swap_blockers(row) == []


def test_swap_waits_for_the_aircraft_and_its_turnaround() -> None:
    inbound = flight("9", "EY205", "BOM-AUH", at(-2), at(1, 45), "A6-BLB")
    with open_airline(LONDON_OUT, *PEOPLE, inbound) as airline:
        report = airline.assess("swap", swap_to="A6-BLB")
        known_late = airline.assess("swap", swap_to="A6-BLC", known_at=at(1, 50))
        delayed = airline.assess("swap", swap_to="A6-BLC", delay_minutes=90)
    assert get_option(report, "swap-A6-BLB").delay_minutes == 60
    assert get_option(known_late, "swap-A6-BLC").delay_minutes == 65
    assert get_option(delayed, "swap-A6-BLC").delay_minutes == 90


def test_swap_on_time_misses_no_connections_though_the_delay_does() -> None:
    onward = flight("2", "EY6411", "LHR-EDI", at(11, 20), at(12, 45), "G-EUYA")
    with open_airline(LONDON_OUT, *PEOPLE, onward, booking("C1", "P1", "2")) as airline:
        report = airline.assess("delay", delay_minutes=240)
    swap = next(each for each in report.options.proposed if each.kind == "swap")
    assert report.passengers.missing_connections == 1
    assert "rebooking" not in {line.label for line in swap.breakdown}


def test_swap_request_offers_no_delay_of_the_original_aircraft() -> None:
    with open_airline(LONDON_OUT, *PEOPLE) as airline:
        report = airline.assess("swap", swap_to="A6-BLB")
    assert {each.kind for each in report.options.proposed} == {"swap", "cancel"}


# --- all of them --------------------------------------------------------------------------------------------


@all_cases("kind", ["delay", "cancel", "swap"])
def test_options_are_ranked_by_feasibility_then_cost(kind: str, sample_stores: Stores) -> None:
    proposed = Airline(sample_stores).assess(kind, **DISRUPTIONS[kind]).options.proposed
    assert [each.rank for each in proposed] == list(range(1, len(proposed) + 1))
    assert proposed == sorted(proposed, key=lambda each: (bool(each.blockers), each.cost))
    assert len({each.id for each in proposed}) == len(proposed) >= 2
    for each in proposed:
        assert each.cost == sum(line.amount for line in each.breakdown)
        assert each.currency == COSTS.currency and each.assumptions
