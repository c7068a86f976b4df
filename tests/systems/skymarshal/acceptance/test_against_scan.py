"""Disruption reports on the sample and on random airlines, compared with an oracle that uses no index.

The oracle is simple: it reads all rows for every question. Its rules are written out
here rather than taken from the system.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from random import Random
from typing import Any, TypeVar

import pytest

from holdfast import Entity, Stores
from skymarshal.disruptions.assessment import assess
from skymarshal.disruptions.report import DisruptionRequest, Report
from skymarshal.domain.airports import get_airports
from skymarshal.domain.statuses import (
    BaggageStatus,
    BookingStatus,
    CrewPosition,
    LoadingStatus,
    WorkOrderStatus,
)
from skymarshal.model.entities import Bag, Booking, CargoAssignment, CrewAssignment, Flight, WorkOrder
from tests.cases import all_cases
from tests.systems.skymarshal.acceptance.small_airline import (
    at,
    bag,
    booking,
    cargo,
    crew,
    flight,
    open_airline,
    work_order,
)

E = TypeVar("E", bound=Entity)

DISRUPTIONS, AIRLINES = 12, 12
REGISTRATIONS = ["A6-BLA", "A6-BLB", "A6-BLC"]
SEATED = ("Confirmed", "CheckedIn", "Boarded")
# Minimum connection times in minutes after an international flight, at the sample's hubs.
CHANGE_INTERNATIONAL = {"AUH": 60, "LHR": 75, "BOM": 90}
CHANGE_TO_DOMESTIC = {"AUH": 60, "LHR": 90}


class AllRows:
    """Every row of the tables that the oracle needs, read by scans."""

    def __init__(self, stores: Stores) -> None:
        self.flights = {each.flight_id: each for each in _read_all(stores, Flight)}
        self.bookings = _read_all(stores, Booking)
        self.bags = _read_all(stores, Bag)
        self.crew = _read_all(stores, CrewAssignment)
        self.cargo = _read_all(stores, CargoAssignment)
        self.orders = _read_all(stores, WorkOrder)


@pytest.mark.proves("SM-35")
def test_disruption_report_equals_a_full_scan(sample_stores: Stores) -> None:
    all_rows = AllRows(sample_stores)
    for seed in range(DISRUPTIONS):
        request = _draw_request(Random(seed), all_rows)
        report = asyncio.run(assess(sample_stores, request))
        assert _summarise(report) == _compute_expected(all_rows, request), request


@all_cases("seed", range(AIRLINES))
def test_report_equals_a_full_scan_on_random_airlines(seed: int) -> None:
    draw = Random(seed)
    with open_airline(*_draw_airline(draw)) as airline:
        all_rows = AllRows(airline.stores)
        for _ in range(5):
            request = _draw_request(draw, all_rows)
            assert _summarise(asyncio.run(assess(airline.stores, request))) == _compute_expected(
                all_rows, request
            )


def _draw_airline(draw: Random) -> Iterator[Entity]:
    """Draw twelve flights with bookings, bags, crew, cargo and work orders in every status."""
    flights = [_draw_flight(draw, number) for number in range(1, 13)]
    yield from flights
    for number in range(40):
        for place, each in enumerate(draw.choices(flights, k=draw.randrange(1, 4))):
            booked = booking(
                f"B{number}-{place}",
                f"P{number}",
                each.flight_id,
                draw.choice([BookingStatus.CONFIRMED] * 6 + list(BookingStatus)),
            )
            yield booked
            for count in range(draw.randrange(3)):
                tag = f"0607{number:03}{place}{count}0"
                yield bag(tag, booked.booking_id, draw.choice(list(BaggageStatus)))
    for number in range(15):
        where = draw.choice(flights)
        yield crew(f"R{number}", f"C{number}", draw.choice(list(CrewPosition)), at(0), at(9), where.flight_id)
        yield cargo(f"A{number}", "10", flight_id=where.flight_id, status=draw.choice(list(LoadingStatus)))
        yield work_order(f"WO-{number}", draw.choice(REGISTRATIONS), draw.choice(list(WorkOrderStatus)))


def _draw_flight(draw: Random, number: int) -> Flight:
    """Draw a flight with random route, times and aircraft, sometimes late or cancelled."""
    departs = at(0, draw.randrange(0, 24 * 60))
    arrives = departs + timedelta(minutes=draw.randrange(60, 500))
    late = draw.choice([None, None, timedelta(minutes=draw.randrange(1, 200))])
    return flight(
        str(number),
        f"EY{number}",
        draw.choice(["BOM-AUH", "AUH-LHR", "LHR-EDI", "LHR-DUB", "AUH-BOM", "LHR-AUH"]),
        departs,
        arrives,
        draw.choice(REGISTRATIONS),
        estimated_departure=late and departs + late,
        estimated_arrival=late and arrives + late,
        flight_status=draw.choice(["SCHEDULED"] * 5 + ["CANCELLED"]),
    )


def _draw_request(draw: Random, all_rows: AllRows) -> DisruptionRequest:
    """Draw a disruption, preferring flights with connecting passengers, so that connections can be missed."""
    several = Counter(each.passenger_id for each in all_rows.bookings if each.booking_status.has_seat)
    connecting = [
        each.flight_id
        for each in all_rows.bookings
        if several[each.passenger_id] > 1 and each.booking_status.has_seat
    ]
    flight = all_rows.flights[draw.choice([*sorted(connecting), *sorted(all_rows.flights)])]
    kind = draw.choice(["delay", "delay", "cancel"])
    return DisruptionRequest.model_validate(
        {
            "kind": kind,
            "flight_id": flight.flight_id,
            "delay_minutes": draw.randrange(1, 900) if kind == "delay" else 0,
            "known_at": flight.scheduled_departure - timedelta(hours=draw.randrange(0, 24)),
        }
    )


def _summarise(report: Report) -> dict[str, Any]:
    """Return the parts of a report that the oracle can compute."""
    return {
        "passengers": sorted(hit.passenger_id for hit in report.passengers.ranked),
        "missed": {
            hit.passenger_id: sorted(each.outbound_flight_id for each in hit.missed_connections)
            for hit in report.passengers.ranked
            if hit.missed_connections
        },
        "waitlisted": report.passengers.waitlisted,
        "bags": report.bags.by_status,
        "to_reroute": report.bags.to_reroute,
        "crew": sorted(member.roster_id for member in report.crew.members),
        "cargo": sorted(each.assignment_id for each in report.cargo.assignments),
        "orders": sorted(each.workorder_id for each in report.maintenance.open),
        "rotation": sorted(each.flight_id for each in report.rotation.flights),
    }


def _compute_expected(all_rows: AllRows, request: DisruptionRequest) -> dict[str, Any]:
    """Compute the summary of a report from all rows, by the oracle's own rules."""
    flight = all_rows.flights[request.flight_id]  # type: ignore[index]
    here = [each for each in all_rows.bookings if each.flight_id == flight.flight_id]
    seated = [each for each in here if each.booking_status.value in SEATED]
    passengers = sorted({each.passenger_id for each in seated})
    missed = {each: lost for each in passengers if (lost := _find_missed(all_rows, request, flight, each))}
    owners = {each.booking_id: each.passenger_id for each in seated}
    bags = [each for each in all_rows.bags if each.booking_id in owners]
    return {
        "passengers": passengers,
        "missed": missed,
        "waitlisted": sum(each.booking_status.value == "Waitlisted" for each in here),
        "bags": dict(sorted(Counter(each.baggage_status.value for each in bags).items())),
        "to_reroute": sorted(
            each.baggage_tag
            for each in bags
            if request.kind.value == "cancel" or owners[each.booking_id] in missed
        ),
        "crew": sorted(each.roster_id for each in all_rows.crew if each.flight_id == flight.flight_id),
        "cargo": sorted(
            each.assignment_id
            for each in all_rows.cargo
            if each.flight_id == flight.flight_id and each.loading_status.value != "OFFLOADED"
        ),
        "orders": sorted(
            each.workorder_id
            for each in all_rows.orders
            if each.aircraft_registration == flight.aircraft_registration
            and each.work_status.value != "CLOSED"
        ),
        "rotation": sorted(_list_rotation(all_rows.flights.values(), flight)),
    }


def _find_missed(all_rows: AllRows, request: DisruptionRequest, flight: Flight, passenger: str) -> list[str]:
    """Return the passenger's next flight if its connection was possible before and no longer is."""
    mine = [
        all_rows.flights[each.flight_id]
        for each in all_rows.bookings
        if each.passenger_id == passenger and each.booking_status.value in SEATED
    ]
    later = [
        each
        for each in mine
        if each.scheduled_departure > flight.scheduled_departure and each.flight_status != "CANCELLED"
    ]
    if not later:
        return []
    onward = min(later, key=lambda each: each.scheduled_departure)
    stay = onward.scheduled_departure - flight.scheduled_arrival
    if onward.origin != flight.destination or not timedelta(0) <= stay <= timedelta(hours=24):
        return []
    leaves = onward.estimated_departure or onward.scheduled_departure
    needed = timedelta(minutes=_get_connection_minutes(onward))
    if request.kind.value == "cancel":
        return [onward.flight_id]
    arrives = flight.scheduled_arrival + timedelta(minutes=request.delay_minutes)
    was_possible = leaves - flight.scheduled_arrival >= needed
    return [onward.flight_id] if was_possible and leaves - arrives < needed else []


def _get_connection_minutes(onward: Flight) -> int:
    """Return the minimum connection time from an international flight to this one."""
    is_domestic = get_airports()[onward.origin].country == get_airports()[onward.destination].country
    return (CHANGE_TO_DOMESTIC if is_domestic else CHANGE_INTERNATIONAL)[onward.origin]


def _list_rotation(flights: Iterable[Flight], flight: Flight) -> list[str]:
    """Return the ids of the aircraft's other flights in the next 36 hours, without cancelled ones."""
    start: datetime = flight.scheduled_departure
    return [
        each.flight_id
        for each in flights
        if each.aircraft_registration == flight.aircraft_registration
        and start <= each.scheduled_departure <= start + timedelta(hours=36)
        and each.flight_id != flight.flight_id
        and each.flight_status != "CANCELLED"
    ]


def _read_all(stores: Stores, kind: type[E]) -> list[E]:
    """Return every stored row of an entity by a scan."""
    return list(asyncio.run(stores.all(kind.scan(reason="an answer that knows no index"))))
