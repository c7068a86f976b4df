"""The context of an assessment: all stored data that one disruption needs, read in three successive waves.

The first wave reads what belongs to the flight itself; the second what belongs to that (the passengers' other
bookings, bags, the crew's duties, staff, seats on other flights, work on other aircraft); the third the
flights that those refer to. The reads of a wave run in parallel. Each read is metered on its own, so that the
report can name the pattern behind each figure.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any, Final, TypeVar

from holdfast import Pattern, Stores
from holdfast.model.entities import SkippedItem, skip_unreadable
from holdfast.model.system import collect_patterns
from holdfast.runtime import Meter, meter_usage
from skymarshal.disruptions.report import DisruptionRequest, Trace
from skymarshal.domain import airline_network
from skymarshal.domain.statuses import (
    BookingStatus,
    CrewStatus,
    DisruptionKind,
    LoadingStatus,
    WorkOrderStatus,
)
from skymarshal.model import patterns, roster
from skymarshal.model.entities import (
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
from skymarshal.model.queries import SEATED_STATUSES, find_flight, get_crew_rows, get_flight, is_flying
from skymarshal.model.roster import is_roster_switched

R = TypeVar("R")

ROTATION_WINDOW: Final = timedelta(hours=36)
ALTERNATIVES_WINDOW: Final = timedelta(hours=36)
# An aircraft is where its last flight ended; one that has not flown for this long is at its base.
LAST_FLIGHT_WINDOW: Final = timedelta(hours=96)
# The windows of FAR 117 up to 672 hours, and the duties that follow within two days. The limit over 365
# days is left to roster planning: one delay does not decide it, and checking it would mean reading a year
# of duties.
DUTIES_BEFORE: Final = timedelta(hours=672)
DUTIES_AFTER: Final = timedelta(hours=48)

HISTORIES_UNKNOWN_MESSAGE: Final = (
    "Rest and cumulative limits are not checked: the duty histories of the crew are unknown until the roster "
    "is migrated to the table by crew member and time. Run: holdfast migrate skymarshal crew-roster-v2."
)

CrewRow = CrewAssignment | CrewDuty

_PATTERNS_BY_ID: Mapping[str, Pattern[..., Any]] = {
    each.id: each for each in (*collect_patterns(patterns), *collect_patterns(roster))
}


@dataclass(frozen=True)
class SectionReads:
    """The metered reads for one section."""

    meter: Meter = field(default_factory=Meter)

    @property
    def traces(self) -> list[Trace]:
        """One trace per access pattern."""
        return [
            _build_trace(pattern, self.meter.filter_by_pattern(pattern)) for pattern in self.meter.patterns
        ]


@dataclass(frozen=True)
class FirstWave:
    """Data of the flight itself. `reads` has the metered reads by section of the report.

    `bookings` are those that hold a seat. `rotation` has the aircraft's later flights, `alternatives` later
    flights on the same route, `spare_schedules` the flights of the spare aircraft by registration, all
    without cancelled ones.
    """

    bookings: Sequence[Booking]
    waitlisted: int
    crew: Sequence[CrewRow]
    # Whether the crew's duties before and after this flight can be read.
    has_duty_histories: bool
    cargo: Sequence[CargoAssignment]
    work_orders: Sequence[WorkOrder]
    rotation: Sequence[Flight]
    alternatives: Sequence[Flight]
    spare_schedules: Mapping[str, Sequence[Flight]]
    reads: Mapping[str, SectionReads]


@dataclass(frozen=True)
class SecondWave:
    """Data that the first wave refers to, with the metered reads by section of the report.

    Passengers and their bookings (`itineraries`) are keyed by passenger id, bags by booking id, duties by
    crew id, staff by work order id, free seats by flight id, open work on spare aircraft by registration.
    """

    passengers: Mapping[str, Passenger]
    itineraries: Mapping[str, Sequence[Booking]]
    bags: Mapping[str, Sequence[Bag]]
    duties: Mapping[str, Sequence[CrewDuty]]
    staff: Mapping[str, Sequence[MaintenanceShift]]
    seats_left: Mapping[str, int]
    spare_work_orders: Mapping[str, Sequence[WorkOrder]]
    reads: Mapping[str, SectionReads]


@dataclass(frozen=True)
class ThirdWave:
    """Flights by id: those that the first two waves refer to, as far as they exist."""

    flights: Mapping[str, Flight]
    reads: SectionReads


@dataclass(frozen=True)
class DisruptionContext:
    """Everything that was read for one disruption, and the values that several sections share."""

    request: DisruptionRequest
    flight: Flight
    known_at: datetime
    first: FirstWave
    second: SecondWave
    third: ThirdWave
    flight_reads: SectionReads
    meter: Meter
    skipped_items: Sequence[SkippedItem] = ()

    @property
    def delay(self) -> timedelta:
        """The requested delay; zero if none was given."""
        return timedelta(minutes=self.request.delay_minutes)

    @property
    def new_departure(self) -> datetime:
        """The scheduled departure plus the delay.

        An earlier estimate is ignored, so repeating a report keeps the same delay.
        """
        return self.flight.scheduled_departure + self.delay

    @property
    def new_arrival(self) -> datetime:
        """The scheduled arrival plus the delay."""
        return self.flight.scheduled_arrival + self.delay

    @property
    def too_late_reason(self) -> str | None:
        """Why the flight can no longer depart with that delay, if the disruption became known only later."""
        if self.known_at <= self.new_departure:
            return None
        return (
            f"The new departure, {self.new_departure:%d %b %Y %H:%M}Z, is before the disruption "
            f"became known, {self.known_at:%d %b %Y %H:%M}Z."
        )

    @cached_property
    def problems(self) -> list[str]:
        """The gaps in the figures, as sentences."""
        problems = list(dict.fromkeys(f"Skipped an unreadable item: {each}." for each in self.skipped_items))
        if self.too_late_reason:
            problems.append(
                f"{self.too_late_reason} Options and claims are computed for that time. "
                "If it is wrong, give known_at."
            )
        if not self.first.has_duty_histories and self.flying_crew and not self.is_cancelled:
            problems.append(HISTORIES_UNKNOWN_MESSAGE)
        return problems

    def has_duty_history(self, crew_id: str) -> bool:
        """Return whether all duties of a crew member are known. None are before the roster is migrated."""
        return self.first.has_duty_histories and crew_id not in self._crew_with_skipped_rows

    @cached_property
    def _crew_with_skipped_rows(self) -> frozenset[object]:
        """The ids of crew members with an unreadable roster row."""
        rosters = (crew_roster.name, crew_roster_v2.name)
        return frozenset(each.item.get("crew_id") for each in self.skipped_items if each.table in rosters)

    @property
    def is_cancelled(self) -> bool:
        return self.request.kind is DisruptionKind.CANCEL

    @property
    def capacity(self) -> int:
        """The seats of the aircraft that is to fly."""
        return (
            airline_network.get_aircraft(self.request.swap_to).seats
            if self.request.swap_to
            else self.flight.capacity
        )

    @cached_property
    def bookings_by_passenger(self) -> Mapping[PassengerId, Sequence[Booking]]:
        """The bookings on this flight by passenger: one each, except for duplicates."""
        grouped: dict[PassengerId, list[Booking]] = {}
        for booking in self.first.bookings:
            grouped.setdefault(booking.passenger_id, []).append(booking)
        return grouped

    @property
    def denied_boarding(self) -> int:
        """The number of passengers beyond the seats of the swap aircraft."""
        return max(0, len(self.bookings_by_passenger) - self.capacity) if self.request.swap_to else 0

    @property
    def flying_crew(self) -> list[CrewRow]:
        """Roster rows of the crew on board."""
        return [row for row in self.first.crew if is_flying(row)]

    @property
    def standby_crew(self) -> list[CrewRow]:
        """Roster rows of the crew on standby."""
        return [row for row in self.first.crew if row.roster_status is CrewStatus.STANDBY]

    @property
    def cargo(self) -> list[CargoAssignment]:
        """The cargo of the flight, without offloaded cargo."""
        return [each for each in self.first.cargo if each.loading_status is not LoadingStatus.OFFLOADED]

    @property
    def open_work_orders(self) -> list[WorkOrder]:
        """The work orders on the aircraft that are not closed, deferred ones included."""
        return _select_open(self.first.work_orders)


async def fetch_context(stores: Stores, request: DisruptionRequest) -> DisruptionContext:
    """Read everything that the report is built from. Unreadable rows, except the flight's own, are skipped.

    Raise `NotFound` for an unknown flight, `Conflict` if several match, `InvalidRequest` for an invalid one.
    """
    known_at = request.known_at or stores.now()
    with meter_usage() as total:
        flight, flight_reads = await _record_reads(_fetch_flight(stores, request))
        # One unreadable row must not fail the assessment: it is skipped and reported.
        with skip_unreadable() as skipped_items:
            first = await _fetch_first_wave(stores, flight, request.swap_to, known_at)
            second = await _fetch_second_wave(stores, flight, first)
            third = await _fetch_third_wave(stores, flight, first, second)
    return DisruptionContext(
        request, flight, known_at, first, second, third, flight_reads, total, skipped_items
    )


async def _fetch_flight(stores: Stores, request: DisruptionRequest) -> Flight:
    """Read the requested flight, by number and day or by id."""
    if request.flight_number is not None and request.day is not None:
        return await find_flight(stores, request.flight_number, request.day)
    return await get_flight(stores, FlightId(request.flight_id or ""))


async def _fetch_first_wave(
    stores: Stores, flight: Flight, swap_to: str | None, known_at: datetime
) -> FirstWave:
    """Read the data of the flight itself in parallel."""
    fid, tail, departs = flight.flight_id, flight.aircraft_registration, flight.scheduled_departure
    spares = airline_network.find_spare_registrations(tail, swap_to)
    start, end = departs - LAST_FLIGHT_WINDOW, departs + ROTATION_WINDOW
    async with _task_group() as group:
        bookings = group.create_task(_record_reads(_fetch_bookings(stores, flight)))
        waitlisted = group.create_task(
            _record_reads(stores.run(patterns.count_on_flight(fid, BookingStatus.WAITLISTED)))
        )
        crew = group.create_task(_record_reads(_fetch_crew(stores, fid)))
        cargo = group.create_task(_record_reads(stores.all(patterns.cargo_on_flight(fid))))
        orders = group.create_task(_record_reads(stores.all(patterns.work_orders_of_aircraft(tail))))
        rotation = group.create_task(
            _record_reads(stores.all(patterns.flights_of_aircraft(tail, departs, end)))
        )
        others = group.create_task(_record_reads(_fetch_alternatives(stores, flight, known_at)))
        busy = group.create_task(
            _record_reads(stores.run(patterns.flights_of_several_aircraft(spares, start, end)))
        )
    return FirstWave(
        bookings.result()[0],
        waitlisted.result()[0].count,
        *crew.result()[0],
        cargo.result()[0],
        orders.result()[0],
        [each for each in _drop_cancelled(rotation.result()[0]) if each.flight_id != fid],
        others.result()[0],
        {each: _drop_cancelled(planned) for each, planned in zip(spares, busy.result()[0], strict=True)},
        {
            "passengers": _merge_reads(bookings.result()[1], waitlisted.result()[1]),
            "crew": crew.result()[1],
            "cargo": cargo.result()[1],
            "maintenance": orders.result()[1],
            "rotation": rotation.result()[1],
            "options": _merge_reads(others.result()[1], busy.result()[1]),
        },
    )


async def _fetch_crew(stores: Stores, flight_id: FlightId) -> tuple[Sequence[CrewRow], bool]:
    """Read the crew. Also return whether the table read holds their other duties."""
    is_switched = await is_roster_switched(stores)
    return await get_crew_rows(stores, flight_id, is_switched), is_switched


async def _fetch_bookings(stores: Stores, flight: Flight) -> list[Booking]:
    """Read the bookings of everyone who holds a seat."""
    async with _task_group() as group:
        tasks = [
            group.create_task(stores.all(patterns.bookings_on_flight(flight.flight_id, status)))
            for status in SEATED_STATUSES
        ]
    return [booking for task in tasks for booking in task.result()]


async def _fetch_alternatives(stores: Stores, flight: Flight, known_at: datetime) -> list[Flight]:
    """Read the flights on the same route that depart in the 36 hours from this one's scheduled departure.

    Flights that are cancelled or left before `known_at` are dropped. The earliest arrival comes first.
    """
    numbers = airline_network.find_flight_numbers(flight.origin, flight.destination)
    since = flight.scheduled_departure
    pages = await stores.run(patterns.flights_numbered_between(numbers, since, since + ALTERNATIVES_WINDOW))
    found = [
        each
        for page in pages
        for each in _drop_cancelled(page)
        if each.flight_id != flight.flight_id and each.departure >= known_at
    ]
    return sorted(found, key=lambda each: (each.arrival, each.flight_id))


async def _fetch_second_wave(stores: Stores, flight: Flight, first: FirstWave) -> SecondWave:
    """Read the data that the first wave refers to in parallel."""
    passenger_ids = list(dict.fromkeys(booking.passenger_id for booking in first.bookings))
    booking_ids = [booking.booking_id for booking in first.bookings]
    # Before the roster is switched, the table by crew member may lack some or all duties: it is not read.
    crew = list(dict.fromkeys(each.crew_id for each in first.crew)) if first.has_duty_histories else []
    orders = [each.workorder_id for each in _select_open(first.work_orders)]
    since = flight.scheduled_departure - DUTIES_BEFORE
    until = flight.scheduled_departure + DUTIES_AFTER
    async with _task_group() as group:
        passengers = group.create_task(_record_reads(stores.run(patterns.passengers_by_id(passenger_ids))))
        trips = group.create_task(_record_reads(stores.run(patterns.bookings_of_passengers(passenger_ids))))
        bags = group.create_task(_record_reads(stores.run(patterns.bags_of_bookings(booking_ids))))
        duties = group.create_task(_record_reads(stores.run(patterns.duties_of_crews(crew, since, until))))
        staff = group.create_task(_record_reads(stores.run(patterns.staff_of_work_orders(orders))))
        seats = group.create_task(_record_reads(_count_seats_left(stores, first.alternatives)))
        work = group.create_task(
            _record_reads(stores.run(patterns.work_orders_of_several_aircraft(list(first.spare_schedules))))
        )
    return SecondWave(
        {each.passenger_id: each for each in passengers.result()[0] if each is not None},
        dict(zip(passenger_ids, trips.result()[0], strict=True)),
        dict(zip(booking_ids, bags.result()[0], strict=True)),
        dict(zip(crew, duties.result()[0], strict=True)),
        dict(zip(orders, staff.result()[0], strict=True)),
        seats.result()[0],
        {
            each: _select_open(several)
            for each, several in zip(first.spare_schedules, work.result()[0], strict=True)
        },
        {
            "passengers": _merge_reads(passengers.result()[1], trips.result()[1]),
            "bags": bags.result()[1],
            "crew": duties.result()[1],
            "maintenance": staff.result()[1],
            "options": _merge_reads(seats.result()[1], work.result()[1]),
        },
    )


async def _count_seats_left(stores: Stores, flights: Sequence[Flight]) -> dict[str, int]:
    """Return the free seats by flight id: capacity less the bookings that hold a seat, at least 0."""
    pairs = [(flight.flight_id, status) for flight in flights for status in SEATED_STATUSES]
    async with _task_group() as group:
        counts = [group.create_task(stores.run(patterns.count_on_flight(*each))) for each in pairs]
    taken: Counter[str] = Counter()
    for (flight_id, _), counted in zip(pairs, counts, strict=True):
        taken[flight_id] += counted.result().count
    return {flight.flight_id: max(0, flight.capacity - taken[flight.flight_id]) for flight in flights}


async def _fetch_third_wave(
    stores: Stores, flight: Flight, first: FirstWave, second: SecondWave
) -> ThirdWave:
    """Read the flights of itineraries and duties that earlier waves have not read, in one batch."""
    bookings = [booking for several in second.itineraries.values() for booking in several]
    wanted = {each.flight_id for each in bookings if each.booking_status.has_seat}
    wanted |= {duty.flight_id for several in second.duties.values() for duty in several}
    known: dict[str, Flight] = {
        each.flight_id: each for each in (flight, *first.rotation, *first.alternatives)
    }
    missing = [each for each in sorted(wanted) if each not in known]
    found, reads = await _record_reads(stores.run(patterns.flights_by_id(missing)))
    return ThirdWave(known | {each.flight_id: each for each in found if each is not None}, reads)


def _drop_cancelled(flights: Sequence[Flight]) -> list[Flight]:
    """Return the flights that are not cancelled."""
    return [each for each in flights if each.flight_status != patterns.CANCELLED]


def _select_open(orders: Sequence[WorkOrder]) -> list[WorkOrder]:
    """Return the work orders that are not closed."""
    return [each for each in orders if each.work_status is not WorkOrderStatus.CLOSED]


@asynccontextmanager
async def _task_group() -> AsyncIterator[asyncio.TaskGroup]:
    """Open a task group. The first task that fails cancels the others, and its error is raised unwrapped."""
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from None


async def _record_reads(work: Awaitable[R]) -> tuple[R, SectionReads]:
    """Await the work and return its result with its reads. Reads of concurrent tasks are not counted."""
    with meter_usage() as meter:
        return await work, SectionReads(meter)


def _merge_reads(*several: SectionReads) -> SectionReads:
    """Return the reads of several operations as those of one section."""
    return SectionReads(Meter([usage for each in several for usage in each.meter.usages]))


def _build_trace(pattern: str, meter: Meter) -> Trace:
    """Build the trace of an access pattern, given by id, from the meter of its reads."""
    return Trace(
        pattern=pattern,
        purpose=_PATTERNS_BY_ID[pattern].purpose if pattern in _PATTERNS_BY_ID else "",
        requests=len(meter.usages),
        items_read=meter.items_read,
        read_units=meter.units.read,
    )
