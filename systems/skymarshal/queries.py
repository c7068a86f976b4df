"""SkyMarshal's questions, each answered by access patterns put together. All of them page, none of them scans.

`get_passenger_bookings`, `get_flight_manifest`, `get_airport_baggage_summary` and `track_shipment` have the names and
the shapes of the design document; the others answer what its use cases ask for. Answers are Pydantic values, so that
the HTTP API, the agent's tools and Python callers have the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal

from pydantic import BaseModel, ConfigDict

from holdfast import LeftOut, Stores, leaving_out_unreadable
from holdfast.errors import Conflict, InvalidRequest, ItemUnreadable, NotFound
from skymarshal import patterns
from skymarshal.aircraft import check_crew
from skymarshal.airports import airports
from skymarshal.identifiers import AirportCode
from skymarshal.model import (
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
from skymarshal.roster import reads_from_new_table
from skymarshal.statuses import BaggageStatus, BookingStatus, CrewPosition, CrewStatus, LoadingStatus

NO_ULD = "N/A"
# What a row counts as that does not even tell its status.
UNREADABLE = "UNREADABLE"
SEAT_HOLDERS = tuple(status for status in BookingStatus if status.holds_a_seat)
# On a flight's roster, but not on board.
NOT_FLYING = (CrewStatus.SICK, CrewStatus.REMOVED, CrewStatus.STANDBY)


class Answer(BaseModel):
    """A value that is given out: fixed, and the same as JSON."""

    model_config = ConfigDict(frozen=True)


# --- flights -----------------------------------------------------------------------------------------------------


async def find_flight(stores: Stores, flight_number: str, day: date) -> Flight:
    """The flight of that number that departs on that day (UTC): the one that is not cancelled, where one is."""
    try:
        found = (await stores.all(patterns.flights_numbered(flight_number, day))).items
    except ItemUnreadable as error:
        raise _unreadable_flight(error) from error
    if not found:
        raise NotFound(
            f"No flight {flight_number} departs on {day:%Y-%m-%d} (UTC): check the number and the day."
        )
    candidates = [each for each in found if each.flight_status != patterns.CANCELLED] or found
    if len(candidates) > 1:
        ids = ", ".join(each.flight_id for each in candidates)
        raise Conflict(
            f"{len(candidates)} flights {flight_number} depart on {day:%Y-%m-%d} (UTC): name one by its id, {ids}."
        )
    return candidates[0]


async def get_flight(stores: Stores, flight_id: FlightId) -> Flight:
    try:
        found = await stores.run(patterns.flight(flight_id))
    except ItemUnreadable as error:
        raise _unreadable_flight(error) from error
    if found is None:
        raise NotFound(f"There is no flight with the id {flight_id!r}: find it by number and day.")
    return found


def _unreadable_flight(error: ItemUnreadable) -> InvalidRequest:
    key = ", ".join(map(str, error.key.values()))
    return InvalidRequest(
        f"The flight {key} is not kept as a flight can be ({error.reason}): import it again, mended."
    )


# --- passengers and bookings ---------------------------------------------------------------------------------------


class Duplicates(Answer):
    """Flights on which one passenger holds more than one booking that counts."""

    passenger_id: str
    flights: dict[str, list[str]]


async def get_passenger_bookings(stores: Stores, passenger_id: PassengerId) -> list[Booking]:
    """Every booking of a passenger."""
    return list(await stores.all(patterns.bookings_of_passenger(passenger_id)))


async def get_passengers(stores: Stores, passenger_ids: Sequence[PassengerId]) -> list[Passenger]:
    """Many passengers in one batch; those not known are left out."""
    found = await stores.run(patterns.passengers_by_id(list(dict.fromkeys(passenger_ids))))
    return [passenger for passenger in found if passenger is not None]


async def get_duplicate_bookings(stores: Stores, passenger_id: PassengerId) -> Duplicates:
    """The flights a passenger is booked on twice. A cancelled booking is no duplicate of another."""
    by_flight: dict[str, list[str]] = {}
    for booking in await stores.all(patterns.bookings_of_passenger(passenger_id)):
        if booking.booking_status is not BookingStatus.CANCELLED:
            by_flight.setdefault(booking.flight_id, []).append(booking.booking_id)
    return Duplicates(
        passenger_id=passenger_id, flights={flight: ids for flight, ids in by_flight.items() if len(ids) > 1}
    )


class BagOnManifest(Answer):
    baggage_tag: str
    baggage_status: BaggageStatus
    current_location: str
    weight_kg: float


class ManifestLine(Answer):
    """One passenger of a flight. `bags_missing` is how many fewer bags were found than were paid for.

    `bags_unreadable` are there, and kept as this release cannot read them; `problem` says so of the booking itself.
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
    """The passengers of a flight with their bags, each bag count held against the booking."""
    with leaving_out_unreadable() as strange_bookings:
        booked = await stores.all(patterns.bookings_on_flight(flight_id, status))
    with leaving_out_unreadable() as strange_bags:
        bags = await stores.run(patterns.bags_of_bookings([booking.booking_id for booking in booked]))
    lines = [_line(booking, found.items, strange_bags) for booking, found in zip(booked, bags, strict=True)]
    return lines + [_strange_line(each) for each in strange_bookings]


def _strange_line(booking: LeftOut) -> ManifestLine:
    """Of a booking that cannot be read, what can be told all the same."""
    return ManifestLine(
        passenger_id=str(booking.item.get("passenger_id", "")),
        booking_id=str(booking.item.get("booking_id", "")),
        seat=None,
        baggage_count=0,
        baggage=[],
        bags_booked=0,
        bags_missing=0,
        problem=f"The booking cannot be read, and its bags are not counted: {booking.error.reason}.",
    )


def _line(booking: Booking, bags: Sequence[Bag], strange: Sequence[LeftOut] = ()) -> ManifestLine:
    unreadable = [
        str(each.item["baggage_tag"]) for each in strange if each.item.get("booking_id") == booking.booking_id
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
                weight_kg=_kilograms(bag.weight_kg),
            )
            for bag in bags
        ],
        bags_booked=booking.bag_count,
        bags_missing=max(0, booking.bag_count - len(bags) - len(unreadable)),
        bags_unreadable=unreadable,
    )


class Seats(Answer):
    """How full a flight is. Those who checked in or boarded hold a seat as much as those confirmed."""

    flight_id: str
    capacity: int
    taken: int
    left: int
    waitlisted: int


async def get_seats(stores: Stores, flight_id: FlightId) -> Seats:
    """Seats left, which is capacity less those taken, and how many wait for one."""
    flight = await get_flight(stores, flight_id)
    taken = 0
    for status in SEAT_HOLDERS:
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
    return list(await stores.all(patterns.bookings_on_flight(flight_id, BookingStatus.WAITLISTED)))


# --- baggage -----------------------------------------------------------------------------------------------------


class MishandledBag(Answer):
    baggage_tag: str
    booking_id: str


async def get_airport_baggage_summary(stores: Stores, airport: AirportCode) -> dict[str, int]:
    """How many bags an airport has, by status. One that cannot be read counts under the status it is kept with."""
    counts: Counter[str] = Counter()
    with leaving_out_unreadable() as strange:
        async for bag in stores.each(patterns.bags_at(airport)):
            counts[bag.baggage_status.value] += 1
    counts.update(str(each.item.get("baggage_status", UNREADABLE)) for each in strange)
    if not counts:
        _refuse_unknown(airport)
    return dict(sorted(counts.items()))


async def get_mishandled_bags(stores: Stores, airport: AirportCode) -> list[MishandledBag]:
    """The bags at an airport that need somebody's attention now."""
    with leaving_out_unreadable() as strange:
        found = await stores.all(patterns.bags_at_with_status(airport, BaggageStatus.MISHANDLED))
    if not found and not strange:
        _refuse_unknown(airport)
    named = [(str(bag.baggage_tag), str(bag.booking_id)) for bag in found]
    named += [(str(each.item["baggage_tag"]), str(each.item.get("booking_id", ""))) for each in strange]
    return [MishandledBag(baggage_tag=tag, booking_id=booking) for tag, booking in named]


def _refuse_unknown(airport: AirportCode) -> None:
    """A bag may lie at an airport that the table does not have; where none does, the code is a mistake."""
    if airport not in airports():
        raise NotFound(
            f"There is no airport {airport} in the table of airports, and no bag is there: check the code."
        )


async def get_bags_of_booking(stores: Stores, booking_id: BookingId) -> ManifestLine:
    """The bags of one booking, held against what it has paid for."""
    booking = await stores.run(patterns.booking(booking_id))
    if booking is None:
        raise NotFound(f"There is no booking {booking_id!r}.")
    with leaving_out_unreadable() as strange:
        found = await stores.all(patterns.bags_of_booking(booking_id))
    return _line(booking, found.items, strange)


# --- crew --------------------------------------------------------------------------------------------------------


class CrewMember(Answer):
    crew_id: str
    roster_id: str
    position: str
    position_id: CrewPosition
    duty_start: datetime
    duty_end: datetime
    roster_status: str
    home_base: str | None


class CrewOfFlight(Answer):
    """Who is on the roster; of those who fly, how many by position and whether they are enough for the seats."""

    flight_id: str
    crew: list[CrewMember]
    by_position: dict[str, int]
    is_enough: bool
    missing: list[str]


async def get_crew(stores: Stores, flight_id: FlightId) -> CrewOfFlight:
    """The crew of a flight, held against the minimum for its aircraft."""
    flight = await get_flight(stores, flight_id)
    rows = await crew_rows(stores, flight_id)
    flying = [row.position_id for row in rows if flies(row)]
    check = check_crew(flight.capacity, flying)
    return CrewOfFlight(
        flight_id=flight_id,
        crew=[_member(each) for each in rows],
        by_position=dict(Counter(position.label for position in flying)),
        is_enough=check.is_enough,
        missing=list(check.missing),
    )


async def get_crew_in_position(
    stores: Stores, flight_id: FlightId, position: CrewPosition
) -> list[CrewMember]:
    """Who holds one position on a flight: how many captains, for one."""
    if await reads_from_new_table(stores):
        return [_member(each) for each in await stores.all(patterns.crew_in_position_v2(flight_id, position))]
    return [_member(each) for each in await stores.all(patterns.crew_in_position(flight_id, position))]


def flies(row: CrewAssignment | CrewDuty) -> bool:
    """Whether a row of the roster stands for somebody on board."""
    return row.roster_status not in NOT_FLYING


async def crew_rows(
    stores: Stores, flight_id: FlightId, has_moved: bool | None = None
) -> Sequence[CrewAssignment | CrewDuty]:
    """The rows of a flight's crew, from whichever table is the one to read now."""
    if await reads_from_new_table(stores) if has_moved is None else has_moved:
        return (await stores.all(patterns.crew_of_flight_v2(flight_id))).items
    return (await stores.all(patterns.crew_of_flight(flight_id))).items


def _member(row: CrewAssignment | CrewDuty) -> CrewMember:
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


# --- cargo -------------------------------------------------------------------------------------------------------


class RouteLeg(Answer):
    """One flight of a shipment, as the document's `track_shipment` gives it."""

    flight_id: str
    status: LoadingStatus
    weight_kg: float
    uld: str


class Shipment(Answer):
    """A shipment over its flights, and where it stands."""

    shipment_id: str
    awb_number: str | None
    legs: list[RouteLeg]
    delivery_status: str
    legs_done: int


class CargoLoad(Answer):
    """The cargo of a flight and how far its loading is, by assignments and by weight."""

    flight_id: str
    assignments: int
    loaded: int
    pending: int
    loaded_kg: float
    pending_kg: float
    progress: float


async def track_shipment(stores: Stores, shipment_id: ShipmentId) -> list[RouteLeg]:
    """The flights of a shipment in the order of its route."""
    return [_leg(each) for each in await _legs(stores, shipment_id)]


async def get_shipment(stores: Stores, shipment_id: ShipmentId) -> Shipment:
    """A shipment's route and whether it has been delivered, is under way or waits."""
    legs = await _legs(stores, shipment_id)
    if not legs:
        raise NotFound(f"There is no shipment {shipment_id!r} on any flight.")
    statuses = [leg.loading_status for leg in legs]
    return Shipment(
        shipment_id=shipment_id,
        awb_number=next((leg.awb_number for leg in legs if leg.awb_number), None),
        legs=[_leg(each) for each in legs],
        delivery_status=_delivery_status(statuses),
        legs_done=sum(status in (LoadingStatus.ARRIVED, LoadingStatus.DELIVERED) for status in statuses),
    )


async def get_cargo_load(stores: Stores, flight_id: FlightId) -> CargoLoad:
    """What is loaded against what still waits. What was offloaded counts as neither."""
    found = await stores.all(patterns.cargo_on_flight(flight_id))
    waiting = [each for each in found if each.loading_status is LoadingStatus.PENDING]
    offloaded = (LoadingStatus.PENDING, LoadingStatus.OFFLOADED)
    loaded = [each for each in found if each.loading_status not in offloaded]
    return CargoLoad(
        flight_id=flight_id,
        assignments=len(found),
        loaded=len(loaded),
        pending=len(waiting),
        loaded_kg=_total_kilograms(loaded),
        pending_kg=_total_kilograms(waiting),
        progress=round(len(loaded) / max(1, len(loaded) + len(waiting)), 4),
    )


async def get_loaded_weight(stores: Stores, flight_id: FlightId) -> float:
    """The kilograms that are on board."""
    return _total_kilograms(await stores.all(patterns.cargo_on_flight_with(flight_id, LoadingStatus.LOADED)))


async def _legs(stores: Stores, shipment_id: ShipmentId) -> list[CargoAssignment]:
    return sorted(await stores.all(patterns.shipment_legs(shipment_id)), key=lambda each: each.leg)


def _leg(assignment: CargoAssignment) -> RouteLeg:
    return RouteLeg(
        flight_id=assignment.flight_id,
        status=assignment.loading_status,
        weight_kg=_kilograms(assignment.weight_on_flight_kg),
        uld=assignment.uld_number or NO_ULD,
    )


def _delivery_status(statuses: Sequence[LoadingStatus]) -> str:
    if LoadingStatus.OFFLOADED in statuses:
        return "INTERRUPTED"
    if statuses[-1] is LoadingStatus.DELIVERED:
        return "DELIVERED"
    if statuses[-1] is LoadingStatus.ARRIVED:
        return "AT DESTINATION"
    return "BOOKED" if all(status is LoadingStatus.PENDING for status in statuses) else "UNDER WAY"


# --- maintenance -------------------------------------------------------------------------------------------------


class StaffOnShift(Answer):
    staff_id: str
    shift_start: datetime
    shift_end: datetime
    licence: str | None


class Staffing(Answer):
    """The staff of a work order. `peak` is the most that are there at one moment; `now` those at the moment asked."""

    workorder_id: str
    staff: list[StaffOnShift]
    people: int
    peak: int
    now: int | None
    now_required: int | None
    is_enough: bool | None


async def get_staff(stores: Stores, workorder_id: WorkOrderId) -> list[StaffOnShift]:
    """The staff of a work order in the order of their shifts."""
    return [_on_shift(each) for each in await stores.all(patterns.staff_of_work_order(workorder_id))]


async def get_staffing(
    stores: Stores, workorder_id: WorkOrderId, at: datetime | None = None, required: int | None = None
) -> Staffing:
    """The staffing level of a work order: over all its shifts, and at one moment."""
    if at is not None and at.tzinfo is None:
        raise InvalidRequest(f"The moment {at.isoformat()} has no time zone: end it with Z for UTC.")
    shifts = list(await stores.all(patterns.staff_of_work_order(workorder_id)))
    if not shifts:
        raise NotFound(f"Nobody is rostered on a work order {workorder_id!r}: check its number.")
    present = None if at is None else len(on_shift(shifts, at))
    return Staffing(
        workorder_id=workorder_id,
        staff=[_on_shift(each) for each in shifts],
        people=len({each.staff_id for each in shifts}),
        peak=max((len(on_shift(shifts, each.shift_start_zulu)) for each in shifts), default=0),
        now=present,
        now_required=required,
        is_enough=None if present is None or required is None else present >= required,
    )


def on_shift(shifts: Sequence[MaintenanceShift], moment: datetime) -> list[MaintenanceShift]:
    """Those whose shift has begun and not ended at that moment."""
    return [each for each in shifts if each.shift_start_zulu <= moment < each.shift_end_zulu]


def _on_shift(shift: MaintenanceShift) -> StaffOnShift:
    return StaffOnShift(
        staff_id=shift.staff_id,
        shift_start=shift.shift_start_zulu,
        shift_end=shift.shift_end_zulu,
        licence=shift.licence,
    )


def _kilograms(weight: Decimal | None) -> float:
    """Weights are kept exactly and given out as JSON has numbers."""
    return float(weight or 0)


def _total_kilograms(assignments: Sequence[CargoAssignment]) -> float:
    return float(sum((each.weight_on_flight_kg or Decimal(0) for each in assignments), Decimal(0)))
