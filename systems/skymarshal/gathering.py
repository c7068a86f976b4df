"""What a disruption is judged by, read in three waves, each in parallel.

First what hangs on the flight itself; then what hangs on that (the passengers' other bookings, bags, the crew's
duties, staff, room on other flights, work on other aircraft); then the flights that those lead to. Each reading is
metered on its own, so that the report can name the pattern behind each figure.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, Final, TypeVar

from holdfast import LeftOut, Meter, Pattern, Stores, leaving_out_unreadable, metered, patterns_in
from skymarshal import network, patterns, roster
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
    PassengerId,
    WorkOrder,
    crew_roster,
    crew_roster_v2,
)
from skymarshal.queries import SEAT_HOLDERS, crew_rows, find_flight, flies, get_flight
from skymarshal.roster import reads_from_new_table
from skymarshal.statuses import BookingStatus, CrewStatus, DisruptionKind, LoadingStatus, WorkOrderStatus

R = TypeVar("R")

ROTATION: Final = timedelta(hours=36)
ALTERNATIVES_WITHIN: Final = timedelta(hours=36)
# Where an aircraft stands, its last flight says; one that has not flown for so long stands at its base.
LAST_FLOWN_WITHIN: Final = timedelta(hours=96)
# The windows of FAR 117 up to 672 hours, and the duties that follow within two days. The limit over 365 days is for
# those who plan the roster: one delay does not decide it, and a year of duties would have to be read.
DUTIES_BEFORE: Final = timedelta(hours=672)
DUTIES_AFTER: Final = timedelta(hours=48)

HISTORIES_UNKNOWN: Final = (
    "The duty histories of the crew are not known, so that rest and cumulative limits are not checked: the roster has "
    "not moved to the table by crew member and time (holdfast migrate skymarshal crew-roster-v2)."
)

CrewRow = CrewAssignment | CrewDuty

_PATTERNS: Mapping[str, Pattern[..., Any]] = {
    each.id: each for each in (*patterns_in(patterns), *patterns_in(roster))
}


@dataclass(frozen=True)
class Traced:
    """What was read for one section, and by which patterns."""

    meter: Meter = field(default_factory=Meter)

    @property
    def traces(self) -> list[Trace]:
        return [_trace(pattern, self.meter.of_pattern(pattern)) for pattern in self.meter.patterns]


@dataclass(frozen=True)
class FirstWave:
    """What hangs on the flight itself. `busy` is what other aircraft fly around it, by registration."""

    booked: Sequence[Booking]
    waitlisted: int
    crew: Sequence[CrewRow]
    # Whether the duties of the crew before and after this flight can be found.
    has_histories: bool
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
    spare_work: Mapping[str, Sequence[WorkOrder]]
    traced: Mapping[str, Traced]


@dataclass(frozen=True)
class ThirdWave:
    """The flights that the second leads to, by id."""

    flights: Mapping[str, Flight]
    traced: Traced


@dataclass(frozen=True)
class Found:
    """Everything that was read, and what the sections of the report share of it."""

    asked: DisruptionAsked
    flight: Flight
    known_at: datetime
    first: FirstWave
    second: SecondWave
    third: ThirdWave
    traced: Traced
    total: Meter
    left_out: Sequence[LeftOut] = ()

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
    def too_late(self) -> str | None:
        """Why the flight cannot leave with that delay, where it became known only afterwards."""
        if self.known_at <= self.new_departure:
            return None
        return (
            f"It would have left at {self.new_departure:%d %b %Y %H:%M}Z, and this became known at "
            f"{self.known_at:%d %b %Y %H:%M}Z."
        )

    @cached_property
    def problems(self) -> list[str]:
        """What the figures lack."""
        told = list(dict.fromkeys(f"Left out, because it cannot be read: {each}." for each in self.left_out))
        if self.too_late:
            told.append(
                f"{self.too_late} Options and claims are reckoned from then: if that is not meant, give known_at."
            )
        if not self.first.has_histories and self.crew and not self.is_cancelled:
            told.append(HISTORIES_UNKNOWN)
        return told

    def knows_history_of(self, crew_id: str) -> bool:
        """Whether all duties of a crew member are known: none is where the roster has not moved."""
        return self.first.has_histories and crew_id not in self._with_rows_left_out

    @cached_property
    def _with_rows_left_out(self) -> frozenset[object]:
        rosters = (crew_roster.name, crew_roster_v2.name)
        return frozenset(each.item.get("crew_id") for each in self.left_out if each.table in rosters)

    @property
    def is_cancelled(self) -> bool:
        return self.asked.kind is DisruptionKind.CANCEL

    @property
    def capacity(self) -> int:
        """The seats of the aircraft that is to fly."""
        return network.aircraft(self.asked.swap_to).seats if self.asked.swap_to else self.flight.capacity

    @cached_property
    def people(self) -> Mapping[PassengerId, Sequence[Booking]]:
        """Each passenger with the bookings on this flight: one, unless somebody is booked twice."""
        grouped: dict[PassengerId, list[Booking]] = {}
        for booking in self.first.booked:
            grouped.setdefault(booking.passenger_id, []).append(booking)
        return grouped

    @property
    def denied_boarding(self) -> int:
        return max(0, len(self.people) - self.capacity) if self.asked.swap_to else 0

    @property
    def crew(self) -> list[CrewRow]:
        """Those who fly."""
        return [row for row in self.first.crew if flies(row)]

    @property
    def standby(self) -> list[CrewRow]:
        return [row for row in self.first.crew if row.roster_status is CrewStatus.STANDBY]

    @property
    def cargo(self) -> list[CargoAssignment]:
        """What is to go with the flight."""
        return [each for each in self.first.cargo if each.loading_status is not LoadingStatus.OFFLOADED]

    @property
    def open_work(self) -> list[WorkOrder]:
        return _open(self.first.work_orders)


async def gather(stores: Stores, asked: DisruptionAsked) -> Found:
    """Everything that the report is made of."""
    known_at = asked.known_at or datetime.fromtimestamp(stores.clock.now(), UTC)
    with metered() as total:
        flight, traced = await _traced(_flight(stores, asked))
        # One row that cannot be read must not deny the rest: it is left out, and named.
        with leaving_out_unreadable() as left_out:
            first = await _first_wave(stores, flight, asked.swap_to, known_at)
            second = await _second_wave(stores, flight, first)
            third = await _third_wave(stores, flight, first, second)
    return Found(asked, flight, known_at, first, second, third, traced, total, left_out)


async def _flight(stores: Stores, asked: DisruptionAsked) -> Flight:
    if asked.flight_number is not None and asked.day is not None:
        return await find_flight(stores, asked.flight_number, asked.day)
    return await get_flight(stores, FlightId(asked.flight_id or ""))


async def _first_wave(stores: Stores, flight: Flight, swap_to: str | None, known_at: datetime) -> FirstWave:
    fid, tail, departs = flight.flight_id, flight.aircraft_registration, flight.scheduled_departure
    spares = network.spare_registrations(tail, swap_to)
    start, end = departs - LAST_FLOWN_WITHIN, departs + ROTATION
    async with _side_by_side() as group:
        booked = group.create_task(_traced(_booked(stores, flight)))
        waiting = group.create_task(
            _traced(stores.run(patterns.count_on_flight(fid, BookingStatus.WAITLISTED)))
        )
        crew = group.create_task(_traced(_crew(stores, fid)))
        cargo = group.create_task(_traced(stores.all(patterns.cargo_on_flight(fid))))
        orders = group.create_task(_traced(stores.all(patterns.work_orders_of_aircraft(tail))))
        rotation = group.create_task(_traced(stores.all(patterns.flights_of_aircraft(tail, departs, end))))
        others = group.create_task(_traced(_alternatives(stores, flight, known_at)))
        busy = group.create_task(
            _traced(stores.run(patterns.flights_of_several_aircraft(spares, start, end)))
        )
    return FirstWave(
        booked.result()[0],
        waiting.result()[0].count,
        *crew.result()[0],
        cargo.result()[0],
        orders.result()[0],
        [each for each in _flying(rotation.result()[0]) if each.flight_id != fid],
        others.result()[0],
        {each: _flying(planned) for each, planned in zip(spares, busy.result()[0], strict=True)},
        {
            "passengers": _joined(booked.result()[1], waiting.result()[1]),
            "crew": crew.result()[1],
            "cargo": cargo.result()[1],
            "maintenance": orders.result()[1],
            "rotation": rotation.result()[1],
            "options": _joined(others.result()[1], busy.result()[1]),
        },
    )


async def _crew(stores: Stores, flight_id: FlightId) -> tuple[Sequence[CrewRow], bool]:
    """The crew, and whether the table that it is read from also tells their other duties."""
    has_moved = await reads_from_new_table(stores)
    return await crew_rows(stores, flight_id, has_moved), has_moved


async def _booked(stores: Stores, flight: Flight) -> list[Booking]:
    """Everybody who holds a seat, whatever stage they are at."""
    async with _side_by_side() as group:
        tasks = [
            group.create_task(stores.all(patterns.bookings_on_flight(flight.flight_id, status)))
            for status in SEAT_HOLDERS
        ]
    return [booking for task in tasks for booking in task.result()]


async def _alternatives(stores: Stores, flight: Flight, known_at: datetime) -> list[Flight]:
    """Later flights on the same route that can still be caught, soonest arrival first."""
    numbers = network.flight_numbers(flight.origin, flight.destination)
    since = flight.scheduled_departure
    pages = await stores.run(patterns.flights_numbered_between(numbers, since, since + ALTERNATIVES_WITHIN))
    found = [
        each
        for page in pages
        for each in _flying(page)
        if each.flight_id != flight.flight_id and each.departure >= known_at
    ]
    return sorted(found, key=lambda each: (each.arrival, each.flight_id))


async def _second_wave(stores: Stores, flight: Flight, first: FirstWave) -> SecondWave:
    people = list(dict.fromkeys(booking.passenger_id for booking in first.booked))
    booking_ids = [booking.booking_id for booking in first.booked]
    # Before the roster has moved, the table by crew member may lack duties, or all of them: it is not asked.
    crew = list(dict.fromkeys(each.crew_id for each in first.crew)) if first.has_histories else []
    orders = [each.workorder_id for each in _open(first.work_orders)]
    since = flight.scheduled_departure - DUTIES_BEFORE
    until = flight.scheduled_departure + DUTIES_AFTER
    async with _side_by_side() as group:
        who = group.create_task(_traced(stores.run(patterns.passengers_by_id(people))))
        trips = group.create_task(_traced(stores.run(patterns.bookings_of_passengers(people))))
        bags = group.create_task(_traced(stores.run(patterns.bags_of_bookings(booking_ids))))
        duties = group.create_task(_traced(stores.run(patterns.duties_of_crews(crew, since, until))))
        staff = group.create_task(_traced(stores.run(patterns.staff_of_work_orders(orders))))
        seats = group.create_task(_traced(_seats_left(stores, first.alternatives)))
        work = group.create_task(
            _traced(stores.run(patterns.work_orders_of_several_aircraft(list(first.busy))))
        )
    return SecondWave(
        {each.passenger_id: each for each in who.result()[0] if each is not None},
        dict(zip(people, trips.result()[0], strict=True)),
        dict(zip(booking_ids, bags.result()[0], strict=True)),
        dict(zip(crew, duties.result()[0], strict=True)),
        dict(zip(orders, staff.result()[0], strict=True)),
        seats.result()[0],
        {each: _open(several) for each, several in zip(first.busy, work.result()[0], strict=True)},
        {
            "passengers": _joined(who.result()[1], trips.result()[1]),
            "bags": bags.result()[1],
            "crew": duties.result()[1],
            "maintenance": staff.result()[1],
            "options": _joined(seats.result()[1], work.result()[1]),
        },
    )


async def _seats_left(stores: Stores, flights: Sequence[Flight]) -> dict[str, int]:
    """Capacity less those who hold a seat, flight by flight."""
    asked = [(flight.flight_id, status) for flight in flights for status in SEAT_HOLDERS]
    async with _side_by_side() as group:
        counts = [group.create_task(stores.run(patterns.count_on_flight(*each))) for each in asked]
    taken: Counter[str] = Counter()
    for (flight_id, _), counted in zip(asked, counts, strict=True):
        taken[flight_id] += counted.result().count
    return {flight.flight_id: max(0, flight.capacity - taken[flight.flight_id]) for flight in flights}


async def _third_wave(stores: Stores, flight: Flight, first: FirstWave, second: SecondWave) -> ThirdWave:
    bookings = [booking for several in second.itineraries.values() for booking in several]
    wanted = {each.flight_id for each in bookings if each.booking_status.holds_a_seat}
    wanted |= {duty.flight_id for several in second.duties.values() for duty in several}
    known: dict[str, Flight] = {
        each.flight_id: each for each in (flight, *first.rotation, *first.alternatives)
    }
    missing = [each for each in sorted(wanted) if each not in known]
    found, traced = await _traced(stores.run(patterns.flights_by_id(missing)))
    return ThirdWave(known | {each.flight_id: each for each in found if each is not None}, traced)


def _flying(flights: Sequence[Flight]) -> list[Flight]:
    return [each for each in flights if each.flight_status != patterns.CANCELLED]


def _open(orders: Sequence[WorkOrder]) -> list[WorkOrder]:
    return [each for each in orders if each.work_status is not WorkOrderStatus.CLOSED]


@asynccontextmanager
async def _side_by_side() -> AsyncIterator[asyncio.TaskGroup]:
    """Tasks that end together. The first that fails ends the others, and its error is raised as it is."""
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None


async def _traced(work: Awaitable[R]) -> tuple[R, Traced]:
    """The work, and what it read. What runs beside it in other tasks is not counted."""
    with metered() as meter:
        return await work, Traced(meter)


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
