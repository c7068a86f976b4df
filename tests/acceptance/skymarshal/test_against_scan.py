"""Random disruptions, of the sample and of airlines drawn at random, beside an answer that knows no index.

The oracle is too plain to be wrong: it goes through all rows for every question. What it knows of the trade is written
out here again, and not taken from the system.
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
from tests.acceptance.skymarshal.stage import at, bag, booking, cargo, crew, flight, staged, work_order

E = TypeVar("E", bound=Entity)

DISRUPTIONS, AIRLINES = 12, 12
TAILS = ["A6-BLA", "A6-BLB", "A6-BLC"]
SEATED = ("Confirmed", "CheckedIn", "Boarded")
# Minutes from an international flight, at the airports where the sample changes planes.
CHANGE_INTERNATIONAL = {"AUH": 60, "LHR": 75, "BOM": 90}
CHANGE_TO_DOMESTIC = {"AUH": 60, "LHR": 90}


class Everything:
    """Every row of every table, in memory."""

    def __init__(self, stores: Stores) -> None:
        self.flights = {each.flight_id: each for each in _all(stores, Flight)}
        self.bookings = _all(stores, Booking)
        self.bags = _all(stores, Bag)
        self.crew = _all(stores, CrewAssignment)
        self.cargo = _all(stores, CargoAssignment)
        self.orders = _all(stores, WorkOrder)


@pytest.fixture(scope="module")
def everything(sample_stores: Stores) -> Everything:
    return Everything(sample_stores)


@pytest.mark.proves("SM-35")
@pytest.mark.parametrize("seed", range(DISRUPTIONS))
def test_a_disruption_finds_what_a_scan_of_everything_finds(
    seed: int, sample_stores: Stores, everything: Everything
) -> None:
    asked = _asked(Random(seed), everything)
    report = asyncio.run(assess(sample_stores, asked))
    assert _found(report) == _expected(everything, asked)


@pytest.mark.parametrize("seed", range(AIRLINES))
def test_so_it_does_on_an_airline_drawn_at_random(seed: int) -> None:
    draw = Random(seed)
    with staged(*_airline(draw)) as stage:
        everything = Everything(stage.stores)
        for _ in range(5):
            asked = _asked(draw, everything)
            assert _found(asyncio.run(assess(stage.stores, asked))) == _expected(everything, asked)


def _airline(draw: Random) -> Iterator[Entity]:
    """A few flights and people who are on some of them, in every state that rows can be in."""
    flights = [_flight(draw, number) for number in range(1, 13)]
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
        yield work_order(f"WO-{number}", draw.choice(TAILS), draw.choice(list(WorkOrderStatus)))


def _flight(draw: Random, number: int) -> Flight:
    departs = at(0, draw.randrange(0, 24 * 60))
    arrives = departs + timedelta(minutes=draw.randrange(60, 500))
    late = draw.choice([None, None, timedelta(minutes=draw.randrange(1, 200))])
    return flight(
        str(number),
        f"EY{number}",
        draw.choice(["BOM-AUH", "AUH-LHR", "LHR-EDI", "LHR-DUB", "AUH-BOM", "LHR-AUH"]),
        departs,
        arrives,
        draw.choice(TAILS),
        estimated_departure=late and departs + late,
        estimated_arrival=late and arrives + late,
        flight_status=draw.choice(["SCHEDULED"] * 5 + ["CANCELLED"]),
    )


def _asked(draw: Random, everything: Everything) -> DisruptionRequest:
    """A flight is as likely as it has bookings of people who have several, so that there is something to miss."""
    several = Counter(each.passenger_id for each in everything.bookings if each.booking_status.has_seat)
    connecting = [
        each.flight_id
        for each in everything.bookings
        if several[each.passenger_id] > 1 and each.booking_status.has_seat
    ]
    flight = everything.flights[draw.choice([*sorted(connecting), *sorted(everything.flights)])]
    kind = draw.choice(["delay", "delay", "cancel"])
    return DisruptionRequest.model_validate(
        {
            "kind": kind,
            "flight_id": flight.flight_id,
            "delay_minutes": draw.randrange(1, 900) if kind == "delay" else 0,
            "known_at": flight.scheduled_departure - timedelta(hours=draw.randrange(0, 24)),
        }
    )


def _found(report: Report) -> dict[str, Any]:
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


def _expected(everything: Everything, asked: DisruptionRequest) -> dict[str, Any]:
    flight = everything.flights[asked.flight_id]  # type: ignore[index]
    here = [each for each in everything.bookings if each.flight_id == flight.flight_id]
    seated = [each for each in here if each.booking_status.value in SEATED]
    passengers = sorted({each.passenger_id for each in seated})
    missed = {each: lost for each in passengers if (lost := _missed(everything, asked, flight, each))}
    owners = {each.booking_id: each.passenger_id for each in seated}
    bags = [each for each in everything.bags if each.booking_id in owners]
    return {
        "passengers": passengers,
        "missed": missed,
        "waitlisted": sum(each.booking_status.value == "Waitlisted" for each in here),
        "bags": dict(sorted(Counter(each.baggage_status.value for each in bags).items())),
        "to_reroute": sorted(
            each.baggage_tag
            for each in bags
            if asked.kind.value == "cancel" or owners[each.booking_id] in missed
        ),
        "crew": sorted(each.roster_id for each in everything.crew if each.flight_id == flight.flight_id),
        "cargo": sorted(
            each.assignment_id
            for each in everything.cargo
            if each.flight_id == flight.flight_id and each.loading_status.value != "OFFLOADED"
        ),
        "orders": sorted(
            each.workorder_id
            for each in everything.orders
            if each.aircraft_registration == flight.aircraft_registration
            and each.work_status.value != "CLOSED"
        ),
        "rotation": sorted(_rotation(everything.flights.values(), flight)),
    }


def _missed(everything: Everything, asked: DisruptionRequest, flight: Flight, passenger: str) -> list[str]:
    """The flight right after this one in the passenger's plans, if it was within reach and no longer is."""
    mine = [
        everything.flights[each.flight_id]
        for each in everything.bookings
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
    needed = timedelta(minutes=_minutes_to_change(onward))
    if asked.kind.value == "cancel":
        return [onward.flight_id]
    arrives = flight.scheduled_arrival + timedelta(minutes=asked.delay_minutes)
    was_possible = leaves - flight.scheduled_arrival >= needed
    return [onward.flight_id] if was_possible and leaves - arrives < needed else []


def _minutes_to_change(onward: Flight) -> int:
    is_domestic = get_airports()[onward.origin].country == get_airports()[onward.destination].country
    return (CHANGE_TO_DOMESTIC if is_domestic else CHANGE_INTERNATIONAL)[onward.origin]


def _rotation(flights: Iterable[Flight], flight: Flight) -> list[str]:
    start: datetime = flight.scheduled_departure
    return [
        each.flight_id
        for each in flights
        if each.aircraft_registration == flight.aircraft_registration
        and start <= each.scheduled_departure <= start + timedelta(hours=36)
        and each.flight_id != flight.flight_id
        and each.flight_status != "CANCELLED"
    ]


def _all(stores: Stores, kind: type[E]) -> list[E]:
    return list(asyncio.run(stores.all(kind.scan(reason="an answer that knows no index"))))
