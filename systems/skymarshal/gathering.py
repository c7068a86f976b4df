"""What a disruption is judged by, read in three waves, each in parallel.

First what hangs on the flight itself; then what hangs on that (the passengers' other bookings, bags, the crew's
duties, staff, room on other flights); then the flights that those lead to. Each reading is metered on its own, so
that the report can name the pattern behind each figure.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import Any, TypeVar

from holdfast import Meter, Pattern, Stores, metered, patterns_in
from holdfast.errors import InvalidRequest
from skymarshal import network, patterns
from skymarshal.impact import DisruptionAsked, Trace
from skymarshal.model import (
    Bag,
    Booking,
    CargoAssignment,
    CrewAssignment,
    CrewDuty,
    Flight,
    FlightId,
    MaintenanceShift,
    Passenger,
    WorkOrder,
)
from skymarshal.queries import SEAT_HOLDERS, crew_rows, find_flight, get_flight
from skymarshal.statuses import BookingStatus, DisruptionKind

R = TypeVar("R")

ROTATION = timedelta(hours=36)
ROTATION_BEFORE = timedelta(hours=12)
ALTERNATIVES_WITHIN = timedelta(hours=36)
# The longest window of FAR 117: 672 hours back, and the duties that follow within two days.
DUTIES_BEFORE, DUTIES_AFTER = timedelta(hours=672), timedelta(hours=48)

_PATTERNS: Mapping[str, Pattern[..., Any]] = {each.id: each for each in patterns_in(patterns)}


@dataclass(frozen=True)
class Traced:
    """What was read for one section, and by which patterns."""

    meter: Meter = field(default_factory=Meter)

    @property
    def traces(self) -> list[Trace]:
        return [_trace(pattern, self.meter.of_pattern(pattern)) for pattern in self.meter.patterns]


@dataclass(frozen=True)
class FirstWave:
    """What hangs on the flight itself."""

    booked: Sequence[Booking]
    waitlisted: int
    crew: Sequence[CrewAssignment | CrewDuty]
    cargo: Sequence[CargoAssignment]
    work_orders: Sequence[WorkOrder]
    rotation: Sequence[Flight]
    alternatives: Sequence[Flight]
    busy: Mapping[str, Sequence[Flight]]
    traced: Mapping[str, Traced]


@dataclass(frozen=True)
class SecondWave:
    """What hangs on the first."""

    passengers: Mapping[str, Passenger]
    itineraries: Mapping[str, Sequence[Booking]]
    bags: Mapping[str, Sequence[Bag]]
    duties: Mapping[str, Sequence[CrewDuty]]
    staff: Mapping[str, Sequence[MaintenanceShift]]
    seats_left: Mapping[str, int]
    traced: Mapping[str, Traced]


@dataclass(frozen=True)
class ThirdWave:
    """The flights that the second leads to, by id."""

    flights: Mapping[str, Flight]
    traced: Traced


@dataclass(frozen=True)
class Found:
    """Everything that was read."""

    asked: DisruptionAsked
    flight: Flight
    known_at: datetime
    first: FirstWave
    second: SecondWave
    third: ThirdWave
    traced: Traced
    total: Meter

    @property
    def delay(self) -> timedelta:
        return timedelta(minutes=self.asked.delay_minutes)

    @property
    def new_departure(self) -> datetime:
        """A delay is told from the schedule, not from the last estimate: told twice, it is the same delay."""
        return self.flight.scheduled_departure + self.delay

    @property
    def new_arrival(self) -> datetime:
        return self.flight.scheduled_arrival + self.delay

    @property
    def is_cancelled(self) -> bool:
        return self.asked.kind is DisruptionKind.CANCEL


async def gather(stores: Stores, asked: DisruptionAsked) -> Found:
    """Everything that the report is made of."""
    with metered() as total:
        flight, traced = await _begun(_flight(stores, asked))
        first = await _first_wave(stores, flight)
        second = await _second_wave(stores, flight, first)
        third = await _third_wave(stores, flight, first, second)
    known_at = asked.known_at or datetime.fromtimestamp(stores.clock.now(), UTC)
    return Found(asked, flight, known_at, first, second, third, traced, total)


async def _flight(stores: Stores, asked: DisruptionAsked) -> Flight:
    if asked.flight_id is not None:
        return await get_flight(stores, FlightId(asked.flight_id))
    assert asked.flight_number is not None
    assert asked.day is not None
    try:
        day = date.fromisoformat(asked.day)
    except ValueError as error:
        raise InvalidRequest(
            f"The day {asked.day!r} is not in the calendar: write it as 2026-01-30."
        ) from error
    return await find_flight(stores, asked.flight_number, day)


async def _first_wave(stores: Stores, flight: Flight) -> FirstWave:
    fid, registration, departs = flight.flight_id, flight.aircraft_registration, flight.scheduled_departure
    spares = network.spare_registrations(registration)
    start, end = departs - ROTATION_BEFORE, departs + ROTATION
    booked = _begun(_booked(stores, flight))
    waiting = _begun(stores.run(patterns.count_on_flight(fid, BookingStatus.WAITLISTED)))
    crew = _begun(crew_rows(stores, fid))
    cargo = _begun(stores.all(patterns.cargo_on_flight(fid)))
    orders = _begun(stores.all(patterns.work_orders_of_aircraft(registration)))
    rotation = _begun(stores.all(patterns.flights_of_aircraft(registration, departs, end)))
    others = _begun(_alternatives(stores, flight))
    busy = _begun(stores.run(patterns.flights_of_several_aircraft(spares, start, end)))
    await asyncio.gather(booked, waiting, crew, cargo, orders, rotation, others, busy)
    return FirstWave(
        booked.result()[0],
        waiting.result()[0].count,
        crew.result()[0],
        cargo.result()[0],
        orders.result()[0],
        [each for each in rotation.result()[0] if each.flight_id != fid],
        others.result()[0],
        dict(zip(spares, busy.result()[0], strict=True)),
        {
            "passengers": _joined(booked.result()[1], waiting.result()[1]),
            "crew": crew.result()[1],
            "cargo": cargo.result()[1],
            "maintenance": orders.result()[1],
            "rotation": rotation.result()[1],
            "options": _joined(others.result()[1], busy.result()[1]),
        },
    )


async def _booked(stores: Stores, flight: Flight) -> list[Booking]:
    """Everybody who holds a seat, whatever stage they are at."""
    pages = await asyncio.gather(
        *(stores.all(patterns.bookings_on_flight(flight.flight_id, status)) for status in SEAT_HOLDERS)
    )
    return [booking for page in pages for booking in page]


async def _alternatives(stores: Stores, flight: Flight) -> list[Flight]:
    """Later flights on the same route, soonest arrival first."""
    numbers = network.flight_numbers(flight.origin, flight.destination)
    since = flight.scheduled_departure
    pages = await stores.run(patterns.flights_numbered_between(numbers, since, since + ALTERNATIVES_WITHIN))
    found = [each for page in pages for each in page if each.flight_id != flight.flight_id]
    return sorted(found, key=lambda each: (each.arrival, each.flight_id))


async def _second_wave(stores: Stores, flight: Flight, first: FirstWave) -> SecondWave:
    people = list(dict.fromkeys(booking.passenger_id for booking in first.booked))
    booking_ids = [booking.booking_id for booking in first.booked]
    crew = list(dict.fromkeys(each.crew_id for each in first.crew))
    orders = [each.workorder_id for each in first.work_orders if each.work_status.holds_the_aircraft]
    since = flight.scheduled_departure - DUTIES_BEFORE
    until = flight.scheduled_departure + DUTIES_AFTER
    results = await asyncio.gather(
        _begun(stores.run(patterns.passengers_by_id(people))),
        _begun(stores.run(patterns.bookings_of_passengers(people))),
        _begun(stores.run(patterns.bags_of_bookings(booking_ids))),
        _begun(stores.run(patterns.duties_of_crews(crew, since, until))),
        _begun(stores.run(patterns.staff_of_work_orders(orders))),
        _begun(_seats_left(stores, first.alternatives)),
    )
    (passengers, p), (itineraries, i), (bags, b), (duties, d), (staff, s), (seats, o) = results
    return SecondWave(
        {each.passenger_id: each for each in passengers if each is not None},
        dict(zip(people, itineraries, strict=True)),
        dict(zip(booking_ids, bags, strict=True)),
        dict(zip(crew, duties, strict=True)),
        dict(zip(orders, staff, strict=True)),
        seats,
        {"passengers": _joined(p, i), "bags": b, "crew": d, "maintenance": s, "options": o},
    )


async def _seats_left(stores: Stores, flights: Sequence[Flight]) -> dict[str, int]:
    """Capacity less those who hold a seat, flight by flight."""
    asked = [(flight, status) for flight in flights for status in SEAT_HOLDERS]
    counts = await asyncio.gather(
        *(stores.run(patterns.count_on_flight(flight.flight_id, status)) for flight, status in asked)
    )
    taken: Counter[str] = Counter()
    for (flight, _), counted in zip(asked, counts, strict=True):
        taken[flight.flight_id] += counted.count
    return {flight.flight_id: max(0, flight.capacity - taken[flight.flight_id]) for flight in flights}


async def _third_wave(stores: Stores, flight: Flight, first: FirstWave, second: SecondWave) -> ThirdWave:
    bookings = [booking for several in second.itineraries.values() for booking in several]
    wanted = {each.flight_id for each in bookings if each.booking_status.holds_a_seat}
    wanted |= {duty.flight_id for several in second.duties.values() for duty in several}
    known: dict[str, Flight] = {
        each.flight_id: each for each in (flight, *first.rotation, *first.alternatives)
    }
    missing = [each for each in sorted(wanted) if each not in known]
    found, traced = await _begun(stores.run(patterns.flights_by_id(missing)))
    return ThirdWave(known | {each.flight_id: each for each in found if each is not None}, traced)


def _begun(work: Awaitable[R]) -> asyncio.Task[tuple[R, Traced]]:
    """Starts the work in a task of its own, so that what it reads is counted as its own."""

    async def metered_work() -> tuple[R, Traced]:
        with metered() as meter:
            return await work, Traced(meter)

    return asyncio.create_task(metered_work())


def _joined(*several: Traced) -> Traced:
    return Traced(Meter([usage for each in several for usage in each.meter.usages]))


def _trace(pattern: str, meter: Meter) -> Trace:
    return Trace(
        pattern=pattern,
        purpose=_PATTERNS[pattern].purpose if pattern in _PATTERNS else "",
        requests=len(meter.usages),
        items_read=meter.items_read,
        read_units=meter.units.read,
    )
