"""Read-only queries that combine access patterns, called by the HTTP API, the agent's tools and Python code.

They read every page of a result, and none of them scans. `get_passenger_bookings`, `get_flight_manifest`,
`get_airport_baggage_summary` and `track_shipment` have the names and result shapes of the design document;
the others answer its use cases. Results are Pydantic models (entities or subclasses of `QueryResult`) or
plain numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal

from pydantic import BaseModel, ConfigDict

from holdfast import Stores
from holdfast.core.errors import Conflict, InvalidRequest, ItemUnreadable, NotFound
from holdfast.model.entities import SkippedItem, skip_unreadable
from skymarshal.domain.aircraft_types import check_crew
from skymarshal.domain.airports import get_airports
from skymarshal.domain.identifiers import AirportCode
from skymarshal.domain.statuses import BaggageStatus, BookingStatus, CrewPosition, CrewStatus, LoadingStatus
from skymarshal.model import patterns
from skymarshal.model.entities import (
    Bag,
    Booking,
    BookingId,
    CargoAssignment,
    CrewAssignment,
    CrewDuty,
    Flight,
    FlightId,
    MaintenanceShift,
    Passenger,
    PassengerId,
    ShipmentId,
    WorkOrderId,
)
from skymarshal.model.roster import is_roster_switched

NO_ULD = "N/A"
# The status under which a row without a status is counted.
UNREADABLE = "UNREADABLE"
SEATED_STATUSES = tuple(status for status in BookingStatus if status.has_seat)
# Crew with these statuses are on a flight's roster but not on board.
NOT_FLYING_STATUSES = (CrewStatus.SICK, CrewStatus.REMOVED, CrewStatus.STANDBY)


class QueryResult(BaseModel):
    """Base of query results: an immutable Pydantic model that serialises to JSON."""

    model_config = ConfigDict(frozen=True)


# --- flights --------------------------------------------------------------------------------------


async def find_flight(stores: Stores, flight_number: str, day: date) -> Flight:
    """Return the flight of that number that departs on that day (UTC).

    Cancelled flights are ignored if another exists. Raise `NotFound` if there is none, `Conflict` if several
    remain and `InvalidRequest` if a stored row is invalid.
    """
    try:
        found = (await stores.all(patterns.flights_numbered(flight_number, day))).items
    except ItemUnreadable as error:
        raise _build_unreadable_error(error) from error
    if not found:
        raise NotFound(
            f"No flight {flight_number} departs on {day:%Y-%m-%d} (UTC). Check the number and the day."
        )
    candidates = [each for each in found if each.flight_status != patterns.CANCELLED] or found
    if len(candidates) > 1:
        ids = ", ".join(each.flight_id for each in candidates)
        raise Conflict(
            f"{len(candidates)} flights {flight_number} depart on {day:%Y-%m-%d} (UTC): expected one. "
            f"Give one of their ids: {ids}."
        )
    return candidates[0]


async def get_flight(stores: Stores, flight_id: FlightId) -> Flight:
    """Return a flight.

    Raise `NotFound` if there is none with this id, `InvalidRequest` if its row is invalid.
    """
    try:
        found = await stores.run(patterns.flight(flight_id))
    except ItemUnreadable as error:
        raise _build_unreadable_error(error) from error
    if found is None:
        raise NotFound(f"There is no flight with the id {flight_id!r}. Find it by number and day.")
    return found


def _build_unreadable_error(error: ItemUnreadable) -> InvalidRequest:
    """Build the error that names the key of an invalid flight row and the reason."""
    key = ", ".join(map(str, error.key.values()))
    return InvalidRequest(f"The stored flight {key} is invalid ({error.reason}). Fix it and import it again.")


# --- passengers and bookings ----------------------------------------------------------------------


class Duplicates(QueryResult):
    """Flights on which one passenger has several bookings: the booking ids by flight id.

    Cancelled ones do not count.
    """

    passenger_id: str
    flights: dict[str, list[str]]


async def get_passenger_bookings(stores: Stores, passenger_id: PassengerId) -> list[Booking]:
    """Return every booking of a passenger, whatever its status.

    The list is empty for an unknown passenger.
    """
    return list(await stores.all(patterns.bookings_of_passenger(passenger_id)))


async def get_passengers(stores: Stores, passenger_ids: Sequence[PassengerId]) -> list[Passenger]:
    """Return passengers by id with batch reads, in the given order. Repeated and unknown ids are left out."""
    found = await stores.run(patterns.passengers_by_id(list(dict.fromkeys(passenger_ids))))
    return [passenger for passenger in found if passenger is not None]


async def get_duplicate_bookings(stores: Stores, passenger_id: PassengerId) -> Duplicates:
    """Return the flights on which a passenger has two or more bookings. Cancelled bookings do not count."""
    by_flight: dict[str, list[str]] = {}
    for booking in await stores.all(patterns.bookings_of_passenger(passenger_id)):
        if booking.booking_status is not BookingStatus.CANCELLED:
            by_flight.setdefault(booking.flight_id, []).append(booking.booking_id)
    return Duplicates(
        passenger_id=passenger_id, flights={flight: ids for flight, ids in by_flight.items() if len(ids) > 1}
    )


class BagOnManifest(QueryResult):
    """One bag of a booking. `weight_kg` is 0 if the stored bag has no weight."""

    baggage_tag: str
    baggage_status: BaggageStatus
    current_location: str
    weight_kg: float


class ManifestLine(QueryResult):
    """One booking of a flight with its bags. `bags_missing` is the number of bags paid for but not found.

    `bags_unreadable` lists the tags of stored bags that this release cannot read; `problem` says why the
    booking itself is unreadable.
    """

    passenger_id: str
    booking_id: str
    seat: str | None
    baggage_count: int
    baggage: list[BagOnManifest]
    bags_booked: int
    bags_missing: int
    bags_unreadable: list[str] = []
    problem: str | None = None


async def get_flight_manifest(
    stores: Stores, flight_id: FlightId, status: BookingStatus = BookingStatus.CONFIRMED
) -> list[ManifestLine]:
    """Return a line per booking with this status: its bags, compared with the number of bags paid for.

    Unreadable bookings come last, with a `problem`. An unknown flight gives an empty list.
    """
    with skip_unreadable() as skipped_bookings:
        bookings = await stores.all(patterns.bookings_on_flight(flight_id, status))
    with skip_unreadable() as skipped_bags:
        bags = await stores.run(patterns.bags_of_bookings([booking.booking_id for booking in bookings]))
    lines = [
        _build_line(booking, found.items, skipped_bags) for booking, found in zip(bookings, bags, strict=True)
    ]
    return lines + [_build_unreadable_line(each) for each in skipped_bookings]


def _build_unreadable_line(skipped: SkippedItem) -> ManifestLine:
    """Build the line of an unreadable booking from the attributes that it has."""
    return ManifestLine(
        passenger_id=str(skipped.item.get("passenger_id", "")),
        booking_id=str(skipped.item.get("booking_id", "")),
        seat=None,
        baggage_count=0,
        baggage=[],
        bags_booked=0,
        bags_missing=0,
        problem=f"The booking is unreadable and its bags are not counted: {skipped.error.reason}.",
    )


def _build_line(
    booking: Booking, bags: Sequence[Bag], skipped_bags: Sequence[SkippedItem] = ()
) -> ManifestLine:
    """Build the line of a booking.

    Those of `skipped_bags` that belong to it count as unreadable, not as missing.
    """
    unreadable = [
        str(each.item["baggage_tag"])
        for each in skipped_bags
        if each.item.get("booking_id") == booking.booking_id
    ]
    return ManifestLine(
        passenger_id=booking.passenger_id,
        booking_id=booking.booking_id,
        seat=booking.seat_number,
        baggage_count=len(bags),
        baggage=[
            BagOnManifest(
                baggage_tag=bag.baggage_tag,
                baggage_status=bag.baggage_status,
                current_location=bag.current_location,
                weight_kg=_to_kilograms(bag.weight_kg),
            )
            for bag in bags
        ],
        bags_booked=booking.bag_count,
        bags_missing=max(0, booking.bag_count - len(bags) - len(unreadable)),
        bags_unreadable=unreadable,
    )


class Seats(QueryResult):
    """The seats of a flight.

    Confirmed, checked-in and boarded bookings take a seat; `left` is never negative.
    """

    flight_id: str
    capacity: int
    taken: int
    left: int
    waitlisted: int


async def get_seats(stores: Stores, flight_id: FlightId) -> Seats:
    """Return the seats taken and left on a flight, and the number of waitlisted bookings.

    Raise `NotFound`.
    """
    flight = await get_flight(stores, flight_id)
    taken = 0
    for status in SEATED_STATUSES:
        taken += (await stores.run(patterns.count_on_flight(flight_id, status))).count
    waiting = await stores.run(patterns.count_on_flight(flight_id, BookingStatus.WAITLISTED))
    return Seats(
        flight_id=flight_id,
        capacity=flight.capacity,
        taken=taken,
        left=max(0, flight.capacity - taken),
        waitlisted=waiting.count,
    )


async def get_waitlist(stores: Stores, flight_id: FlightId) -> list[Booking]:
    """Return the waitlisted bookings of a flight."""
    return list(await stores.all(patterns.bookings_on_flight(flight_id, BookingStatus.WAITLISTED)))


# --- baggage --------------------------------------------------------------------------------------


class MishandledBag(QueryResult):
    """The tag and the booking of a mishandled bag."""

    baggage_tag: str
    booking_id: str


async def get_airport_baggage_summary(stores: Stores, airport: AirportCode) -> dict[str, int]:
    """Return the number of bags at an airport, by status, sorted by status.

    An unreadable bag counts under its stored status, or under `UNREADABLE` if it has none. Raise `NotFound`
    if there are no bags and the airport is unknown.
    """
    counts: Counter[str] = Counter()
    with skip_unreadable() as skipped:
        async for bag in stores.each(patterns.bags_at(airport)):
            counts[bag.baggage_status.value] += 1
    counts.update(str(each.item.get("baggage_status", UNREADABLE)) for each in skipped)
    if not counts:
        _check_airport_known(airport)
    return dict(sorted(counts.items()))


async def get_mishandled_bags(stores: Stores, airport: AirportCode) -> list[MishandledBag]:
    """Return the mishandled bags at an airport, unreadable ones last.

    Raise `NotFound` if there are none and the airport is unknown.
    """
    with skip_unreadable() as skipped:
        found = await stores.all(patterns.bags_at_with_status(airport, BaggageStatus.MISHANDLED))
    if not found and not skipped:
        _check_airport_known(airport)
    pairs = [(str(bag.baggage_tag), str(bag.booking_id)) for bag in found]
    pairs += [(str(each.item["baggage_tag"]), str(each.item.get("booking_id", ""))) for each in skipped]
    return [MishandledBag(baggage_tag=tag, booking_id=booking) for tag, booking in pairs]


def _check_airport_known(airport: AirportCode) -> None:
    """Raise `NotFound` if the airport table lacks the airport.

    Bags may be at an airport that the table lacks; with no bag there, the code is probably a mistake.
    """
    if airport not in get_airports():
        raise NotFound(
            f"There is no airport {airport} in the airport table, and no bag is there. Check the code."
        )


async def get_bags_of_booking(stores: Stores, booking_id: BookingId) -> ManifestLine:
    """Return the bags of one booking, compared with the number paid for.

    Raise `NotFound` for an unknown booking.
    """
    booking = await stores.run(patterns.booking(booking_id))
    if booking is None:
        raise NotFound(f"There is no booking {booking_id!r}.")
    with skip_unreadable() as skipped:
        found = await stores.all(patterns.bags_of_booking(booking_id))
    return _build_line(booking, found.items, skipped)


# --- crew -----------------------------------------------------------------------------------------


class CrewMember(QueryResult):
    """One row of a flight's roster. `position` is the label of `position_id`, such as Captain."""

    crew_id: str
    roster_id: str
    position: str
    position_id: CrewPosition
    duty_start: datetime
    duty_end: datetime
    roster_status: str
    home_base: str | None


class CrewOfFlight(QueryResult):
    """The whole roster of a flight, and a check of those who fly against the legal minimum.

    `by_position` counts only those who fly; `missing` says what the minimum lacks.
    """

    flight_id: str
    crew: list[CrewMember]
    by_position: dict[str, int]
    is_enough: bool
    missing: list[str]


async def get_crew(stores: Stores, flight_id: FlightId) -> CrewOfFlight:
    """Return the crew of a flight, compared with the minimum for its seats.

    Raise `NotFound` for an unknown flight.
    """
    flight = await get_flight(stores, flight_id)
    rows = await get_crew_rows(stores, flight_id)
    flying = [row.position_id for row in rows if is_flying(row)]
    check = check_crew(flight.capacity, flying)
    return CrewOfFlight(
        flight_id=flight_id,
        crew=[_build_crew_member(each) for each in rows],
        by_position=dict(Counter(position.label for position in flying)),
        is_enough=check.is_enough,
        missing=list(check.missing),
    )


async def get_crew_in_position(
    stores: Stores, flight_id: FlightId, position: CrewPosition
) -> list[CrewMember]:
    """Return a flight's roster rows in one position, whatever their status, from the authoritative table."""
    if await is_roster_switched(stores):
        return [
            _build_crew_member(each)
            for each in await stores.all(patterns.crew_in_position_v2(flight_id, position))
        ]
    return [
        _build_crew_member(each) for each in await stores.all(patterns.crew_in_position(flight_id, position))
    ]


def is_flying(row: CrewAssignment | CrewDuty) -> bool:
    """Return whether a roster row means a crew member on board: not sick, removed or on standby."""
    return row.roster_status not in NOT_FLYING_STATUSES


async def get_crew_rows(
    stores: Stores, flight_id: FlightId, is_switched: bool | None = None
) -> Sequence[CrewAssignment | CrewDuty]:
    """Return the roster rows of a flight, whatever their status, from the authoritative table.

    `is_switched` says whether that is the new table; None looks it up.
    """
    if await is_roster_switched(stores) if is_switched is None else is_switched:
        return (await stores.all(patterns.crew_of_flight_v2(flight_id))).items
    return (await stores.all(patterns.crew_of_flight(flight_id))).items


def _build_crew_member(row: CrewAssignment | CrewDuty) -> CrewMember:
    return CrewMember(
        crew_id=row.crew_id,
        roster_id=row.roster_id,
        position=row.position_id.label,
        position_id=row.position_id,
        duty_start=row.duty_start,
        duty_end=row.duty_end,
        roster_status=row.roster_status.value,
        home_base=row.home_base,
    )


# --- cargo ----------------------------------------------------------------------------------------


class RouteLeg(QueryResult):
    """One flight of a shipment, with the fields of `track_shipment` in the design document.

    `uld` may be "N/A".
    """

    flight_id: str
    status: LoadingStatus
    weight_kg: float
    uld: str


class Shipment(QueryResult):
    """The route and the delivery status of a shipment.

    `legs_done` counts the legs that arrived or were delivered.
    """

    shipment_id: str
    awb_number: str | None
    legs: list[RouteLeg]
    delivery_status: str
    legs_done: int


class CargoLoad(QueryResult):
    """The cargo of a flight: assignments and kilograms that are loaded (or already flown) and pending.

    `progress` is the loaded share of the loaded and pending assignments, from 0 to 1.
    """

    flight_id: str
    assignments: int
    loaded: int
    pending: int
    loaded_kg: float
    pending_kg: float
    progress: float


async def track_shipment(stores: Stores, shipment_id: ShipmentId) -> list[RouteLeg]:
    """Return the flights of a shipment in route order. The list is empty for an unknown shipment."""
    return [_build_leg(each) for each in await _get_legs(stores, shipment_id)]


async def get_shipment(stores: Stores, shipment_id: ShipmentId) -> Shipment:
    """Return a shipment's route and delivery status. Raise `NotFound` if it is on no flight."""
    legs = await _get_legs(stores, shipment_id)
    if not legs:
        raise NotFound(f"There is no shipment {shipment_id!r} on any flight.")
    statuses = [leg.loading_status for leg in legs]
    return Shipment(
        shipment_id=shipment_id,
        awb_number=next((leg.awb_number for leg in legs if leg.awb_number), None),
        legs=[_build_leg(each) for each in legs],
        delivery_status=_derive_delivery_status(statuses),
        legs_done=sum(status in (LoadingStatus.ARRIVED, LoadingStatus.DELIVERED) for status in statuses),
    )


async def get_cargo_load(stores: Stores, flight_id: FlightId) -> CargoLoad:
    """Return the loaded and the pending cargo of a flight. Offloaded cargo counts as neither."""
    found = await stores.all(patterns.cargo_on_flight(flight_id))
    pending = [each for each in found if each.loading_status is LoadingStatus.PENDING]
    not_loaded = (LoadingStatus.PENDING, LoadingStatus.OFFLOADED)
    loaded = [each for each in found if each.loading_status not in not_loaded]
    return CargoLoad(
        flight_id=flight_id,
        assignments=len(found),
        loaded=len(loaded),
        pending=len(pending),
        loaded_kg=_sum_kilograms(loaded),
        pending_kg=_sum_kilograms(pending),
        progress=round(len(loaded) / max(1, len(loaded) + len(pending)), 4),
    )


async def get_loaded_weight(stores: Stores, flight_id: FlightId) -> float:
    """Return the kilograms of a flight's cargo with the status LOADED.

    Departed or arrived cargo does not count.
    """
    return _sum_kilograms(await stores.all(patterns.cargo_on_flight_with(flight_id, LoadingStatus.LOADED)))


async def _get_legs(stores: Stores, shipment_id: ShipmentId) -> list[CargoAssignment]:
    """Return the cargo assignments of a shipment, sorted by leg."""
    return sorted(await stores.all(patterns.shipment_legs(shipment_id)), key=lambda each: each.leg)


def _build_leg(assignment: CargoAssignment) -> RouteLeg:
    return RouteLeg(
        flight_id=assignment.flight_id,
        status=assignment.loading_status,
        weight_kg=_to_kilograms(assignment.weight_on_flight_kg),
        uld=assignment.uld_number or NO_ULD,
    )


def _derive_delivery_status(statuses: Sequence[LoadingStatus]) -> str:
    """Return the delivery status of a shipment by the statuses of its legs in route order.

    It is INTERRUPTED if one was offloaded, otherwise DELIVERED or AT DESTINATION by the last leg. Before that
    it is BOOKED if all legs are pending and UNDER WAY if not.
    """
    if LoadingStatus.OFFLOADED in statuses:
        return "INTERRUPTED"
    if statuses[-1] is LoadingStatus.DELIVERED:
        return "DELIVERED"
    if statuses[-1] is LoadingStatus.ARRIVED:
        return "AT DESTINATION"
    return "BOOKED" if all(status is LoadingStatus.PENDING for status in statuses) else "UNDER WAY"


# --- maintenance ----------------------------------------------------------------------------------


class StaffOnShift(QueryResult):
    """One shift of a member of the maintenance staff."""

    staff_id: str
    shift_start: datetime
    shift_end: datetime
    licence: str | None


class Staffing(QueryResult):
    """The shifts on a work order and the number of staff.

    `people` counts staff members, `peak` the most present at one moment, `now` those present at the requested
    moment. `is_enough` says whether `now` reaches `now_required`; it is null if either is.
    """

    workorder_id: str
    staff: list[StaffOnShift]
    people: int
    peak: int
    now: int | None
    now_required: int | None
    is_enough: bool | None


async def get_staff(stores: Stores, workorder_id: WorkOrderId) -> list[StaffOnShift]:
    """Return the shifts of the staff on a work order, by start; a person with two shifts appears twice."""
    return [
        _build_staff_on_shift(each) for each in await stores.all(patterns.staff_of_work_order(workorder_id))
    ]


async def get_staffing(
    stores: Stores, workorder_id: WorkOrderId, at: datetime | None = None, required: int | None = None
) -> Staffing:
    """Return the staffing of a work order over all its shifts and, with `at`, at one moment.

    `required` is the number of staff to compare with at that moment. Raise `NotFound` if the work order has
    no shifts and `InvalidRequest` if `at` has no time zone.
    """
    if at is not None and at.tzinfo is None:
        raise InvalidRequest(f"Invalid at={at.isoformat()}: it has no time zone. End it with Z for UTC.")
    shifts = list(await stores.all(patterns.staff_of_work_order(workorder_id)))
    if not shifts:
        raise NotFound(f"No staff is rostered on work order {workorder_id!r}. Check its number.")
    present = None if at is None else len(select_on_shift(shifts, at))
    return Staffing(
        workorder_id=workorder_id,
        staff=[_build_staff_on_shift(each) for each in shifts],
        people=len({each.staff_id for each in shifts}),
        peak=max((len(select_on_shift(shifts, each.shift_start_zulu)) for each in shifts), default=0),
        now=present,
        now_required=required,
        is_enough=None if present is None or required is None else present >= required,
    )


def select_on_shift(shifts: Sequence[MaintenanceShift], moment: datetime) -> list[MaintenanceShift]:
    """Return the shifts that have started and not ended at a moment."""
    return [each for each in shifts if each.shift_start_zulu <= moment < each.shift_end_zulu]


def _build_staff_on_shift(shift: MaintenanceShift) -> StaffOnShift:
    return StaffOnShift(
        staff_id=shift.staff_id,
        shift_start=shift.shift_start_zulu,
        shift_end=shift.shift_end_zulu,
        licence=shift.licence,
    )


def _to_kilograms(weight: Decimal | None) -> float:
    """Convert a stored exact weight to a JSON number; None becomes 0."""
    return float(weight or 0)


def _sum_kilograms(assignments: Sequence[CargoAssignment]) -> float:
    """Sum the weights of cargo assignments; a missing weight counts as 0."""
    return float(sum((each.weight_on_flight_kg or Decimal(0) for each in assignments), Decimal(0)))
