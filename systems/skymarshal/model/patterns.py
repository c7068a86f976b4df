"""The access patterns of SkyMarshal's tables: reads, decisions and imports, without writes to the roster.

Each read names an index by the key it queries; none scans. `queries.py` and the package `disruptions` combine
them. Patterns that change the roster are in `roster.py`. In the updates of a flight, `seen` is the flight's
version when it was read.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta

from holdfast import Get, Put, Query, Rate, Update, batch_get, batch_put, pattern
from holdfast.model.entities import BatchGet, BatchPut, CountQuery, ParallelQuery, parallel_query
from skymarshal.domain.identifiers import AirportCode, BagTag, FlightNumber, Pnr, TailNumber
from skymarshal.domain.statuses import BaggageStatus, BookingStatus, CrewPosition, LoadingStatus
from skymarshal.model import examples
from skymarshal.model.entities import (
    Bag,
    Booking,
    BookingId,
    CargoAssignment,
    CrewAssignment,
    CrewDuty,
    CrewId,
    DisruptedPassenger,
    Disruption,
    DisruptionId,
    Flight,
    FlightId,
    MaintenanceShift,
    Passenger,
    PassengerId,
    ShipmentId,
    WorkOrder,
    WorkOrderId,
)

# --- flights and passengers -----------------------------------------------------------------------

LOOKUP = Rate(per="passenger lookup")
DEPARTURE = Rate(per="departure")
DISRUPTION = Rate(per="disruption")
# First loads write into empty tables and cannot overwrite anything: they need no condition.
FIRST_LOAD = Rate(per="first load")
# A pattern over many keys has one key as its example and the rate of its keys, so its cost is counted per
# key.
DISRUPTED_PASSENGER = Rate(per="disrupted passenger")

SAMPLE_DAY = date(2026, 1, 30)

# The values that a decision sets as a flight's status.
SCHEDULED, DELAYED, CANCELLED = "SCHEDULED", "DELAYED", "CANCELLED"


@pattern("FL1", "A flight", rate=DEPARTURE, example=("1",))
def flight(flight_id: FlightId) -> Get[Flight]:
    return Flight.of(flight_id).get()


@pattern("FL2", "Flights by id, in one batch", rate=Rate("disruption", 10), example=(["1"],))
def flights_by_id(flight_ids: Sequence[FlightId]) -> BatchGet[Flight]:
    return batch_get(Flight.of(flight_id).get() for flight_id in flight_ids)


@pattern("FL3", "Flights by number and day (UTC)", rate=Rate("disruption", 2), example=("EY11", SAMPLE_DAY))
def flights_numbered(flight_number: FlightNumber, day: date) -> Query[Flight]:
    """Query the flights of a number that are scheduled to depart on a day (UTC)."""
    return Flight.by_number(flight_number).between(*_get_day_bounds(day))


@pattern(
    "FL4",
    "Flights of several numbers in a time range, to find flights that passengers can be moved to",
    rate=Rate("disruption", 3),
    example=lambda: (["EY11"], *_get_day_bounds(SAMPLE_DAY)),
)
def flights_numbered_between(
    flight_numbers: Sequence[FlightNumber], since: datetime, until: datetime
) -> ParallelQuery[Flight]:
    """Query the flights of each number that are scheduled to depart in the range, both ends included."""
    return parallel_query(Flight.by_number(number).between(since, until) for number in flight_numbers)


@pattern(
    "FL5",
    "Flights of an aircraft in a time range",
    rate=Rate("disruption", 2),
    example=lambda: ("A6-BLA", *_get_day_bounds(SAMPLE_DAY)),
)
def flights_of_aircraft(registration: TailNumber, since: datetime, until: datetime) -> Query[Flight]:
    """Query the flights of an aircraft that are scheduled to depart in the range, both ends included."""
    return Flight.by_aircraft(registration).between(since, until)


@pattern(
    "FL6",
    "Flights of several aircraft in a time range, to find a free aircraft",
    rate=Rate("disruption", 15),
    example=lambda: (["A6-BLA"], *_get_day_bounds(SAMPLE_DAY)),
)
def flights_of_several_aircraft(
    registrations: Sequence[TailNumber], since: datetime, until: datetime
) -> ParallelQuery[Flight]:
    """Query the flights of each aircraft that are scheduled to depart in the range, both ends included."""
    return parallel_query(Flight.by_aircraft(each).between(since, until) for each in registrations)


@pattern("PX1", "A passenger", rate=LOOKUP, example=("OZ69826352P",))
def passenger(passenger_id: PassengerId) -> Get[Passenger]:
    return Passenger.of(passenger_id).get()


@pattern("PX2", "Passengers by id, in one batch", rate=DISRUPTED_PASSENGER, example=(["OZ69826352P"],))
def passengers_by_id(passenger_ids: Sequence[PassengerId]) -> BatchGet[Passenger]:
    return batch_get(Passenger.of(passenger_id).get() for passenger_id in passenger_ids)


@pattern("PX3", "Passengers by frequent flyer number", rate=Rate("loyalty lookup"), example=("EY100000001",))
def passengers_of_frequent_flyer(number: str) -> Query[Passenger]:
    return Passenger.by_frequent_flyer(number).query()


@pattern("PX4", "Passengers by booking reference", rate=Rate("loyalty lookup"), example=("OZ6982",))
def passengers_of_pnr(pnr: Pnr) -> Query[Passenger]:
    return Passenger.by_pnr(pnr).query()


# --- bookings -------------------------------------------------------------------------------------


@pattern("BK1", "A booking", rate=LOOKUP, example=("1",))
def booking(booking_id: BookingId) -> Get[Booking]:
    return Booking.of(booking_id).get()


@pattern("BK2", "A passenger's bookings", rate=LOOKUP, example=("OZ69826352P",))
def bookings_of_passenger(passenger_id: PassengerId) -> Query[Booking]:
    return Booking.by_passenger(passenger_id).query()


@pattern(
    "BK3",
    "A passenger's bookings on one flight: more than one is a duplicate",
    rate=Rate("booking change"),
    example=("OZ69826352P", "1"),
)
def bookings_of_passenger_on(passenger_id: PassengerId, flight_id: FlightId) -> Query[Booking]:
    return Booking.by_passenger(passenger_id).at(flight_id)


@pattern("BK4", "All bookings of many passengers", rate=DISRUPTED_PASSENGER, example=(["OZ69826352P"],))
def bookings_of_passengers(passenger_ids: Sequence[PassengerId]) -> ParallelQuery[Booking]:
    """Query the bookings of each passenger, in any status, in parallel."""
    return parallel_query(Booking.by_passenger(passenger_id).query() for passenger_id in passenger_ids)


@pattern(
    "BK5",
    "Bookings on a flight with one status, such as the manifest or the waitlist",
    rate=DEPARTURE,
    example=("1", "Confirmed"),
)
def bookings_on_flight(flight_id: FlightId, status: BookingStatus) -> Query[Booking]:
    return Booking.by_flight(flight_id).at(status)


@pattern(
    "BK6",
    "Number of bookings on a flight with one status, to count seats taken",
    rate=Rate("departure", 4),
    example=("1", "Confirmed"),
)
def count_on_flight(flight_id: FlightId, status: BookingStatus) -> CountQuery[Booking]:
    return Booking.by_flight(flight_id).at(status).count()


@pattern(
    "BK7",
    "Bookings on a flight with a status in an alphabetical range",
    rate=DEPARTURE,
    example=("1", "Cancelled", "Confirmed"),
)
def bookings_on_flight_between(
    flight_id: FlightId, low: BookingStatus, high: BookingStatus
) -> Query[Booking]:
    """Query the bookings whose stored status is alphabetically from `low` to `high`, both included."""
    return Booking.by_flight(flight_id).between(low, high)


# --- baggage --------------------------------------------------------------------------------------


@pattern("BG1", "A bag", rate=Rate("bag scan"), example=("0607000001",))
def bag(baggage_tag: BagTag) -> Get[Bag]:
    return Bag.of(baggage_tag).get()


@pattern("BG2", "The bags of a booking", rate=LOOKUP, example=("1",))
def bags_of_booking(booking_id: BookingId) -> Query[Bag]:
    return Bag.by_booking(booking_id).query()


@pattern("BG3", "The bags of many bookings", rate=DISRUPTED_PASSENGER, example=(["1"],))
def bags_of_bookings(booking_ids: Sequence[BookingId]) -> ParallelQuery[Bag]:
    return parallel_query(Bag.by_booking(booking_id).query() for booking_id in booking_ids)


@pattern("BG4", "The bags at an airport", rate=Rate("airport view"), example=("AUH",))
def bags_at(location: AirportCode) -> Query[Bag]:
    return Bag.by_location(location).query()


@pattern(
    "BG5", "The bags at an airport with one status", rate=Rate("airport view"), example=("AUH", "MISHANDLED")
)
def bags_at_with_status(location: AirportCode, status: BaggageStatus) -> Query[Bag]:
    return Bag.by_location(location).at(status)


@pattern(
    "BG6",
    "Number of bags at an airport with one status",
    rate=Rate("airport view"),
    example=("AUH", "LOADED"),
)
def count_bags_at(location: AirportCode, status: BaggageStatus) -> CountQuery[Bag]:
    return Bag.by_location(location).at(status).count()


# --- crew -----------------------------------------------------------------------------------------


@pattern("CR1", "The crew of a flight", rate=DEPARTURE, example=("1",))
def crew_of_flight(flight_id: FlightId) -> Query[CrewAssignment]:
    """Query the roster rows of a flight in the old table."""
    return CrewAssignment.by_flight(flight_id).query()


@pattern("CR2", "The crew of a flight in one position", rate=DEPARTURE, example=("1", "1"))
def crew_in_position(flight_id: FlightId, position: CrewPosition) -> Query[CrewAssignment]:
    """Query the roster rows of a flight in one position in the old table."""
    return CrewAssignment.by_flight(flight_id).at(position)


@pattern("CR3", "The crew of a flight, from the new table", rate=DEPARTURE, example=("1",))
def crew_of_flight_v2(flight_id: FlightId) -> Query[CrewDuty]:
    return CrewDuty.by_flight(flight_id).query()


@pattern(
    "CR4", "The crew of a flight in one position, from the new table", rate=DEPARTURE, example=("1", "1")
)
def crew_in_position_v2(flight_id: FlightId, position: CrewPosition) -> Query[CrewDuty]:
    return CrewDuty.by_flight(flight_id).at(position)


@pattern(
    "CR5",
    "A crew member's duties that start in a time range",
    rate=Rate("roster view"),
    example=lambda: ("123", datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 31, 23, 59, 59, tzinfo=UTC)),
)
def duties_of_crew(crew_id: CrewId, since: datetime, until: datetime) -> Query[CrewDuty]:
    """Query the duties of a crew member that start in the range, both ends included, from the new table."""
    return CrewDuty.of(crew_id).between(since, until)


@pattern(
    "CR6",
    "The duties of several crew members that start in a time range",
    rate=Rate("disruption", 9),
    example=lambda: (
        ["123"],
        datetime(2026, 1, 1, tzinfo=UTC),
        datetime(2026, 1, 31, 23, 59, 59, tzinfo=UTC),
    ),
)
def duties_of_crews(crew_ids: Sequence[CrewId], since: datetime, until: datetime) -> ParallelQuery[CrewDuty]:
    """Query the duties of each crew member that start in the range, from the new table."""
    return parallel_query(CrewDuty.of(crew_id).between(since, until) for crew_id in crew_ids)


# --- cargo and maintenance ------------------------------------------------------------------------


@pattern("CG1", "The cargo of a flight", rate=DEPARTURE, example=("5",))
def cargo_on_flight(flight_id: FlightId) -> Query[CargoAssignment]:
    return CargoAssignment.by_flight(flight_id).query()


@pattern("CG2", "The cargo of a flight with one loading status", rate=DEPARTURE, example=("5", "LOADED"))
def cargo_on_flight_with(flight_id: FlightId, status: LoadingStatus) -> Query[CargoAssignment]:
    return CargoAssignment.by_flight(flight_id).at(status)


@pattern("CG3", "The flights of a shipment", rate=Rate("shipment lookup"), example=("42",))
def shipment_legs(shipment_id: ShipmentId) -> Query[CargoAssignment]:
    return CargoAssignment.by_shipment(shipment_id).query()


@pattern(
    "MX1", "The staff of a work order, in shift order", rate=Rate("work order view"), example=("WO-10193",)
)
def staff_of_work_order(workorder_id: WorkOrderId) -> Query[MaintenanceShift]:
    return MaintenanceShift.by_work_order(workorder_id).query()


@pattern(
    "MX2",
    "The staff of a work order whose shifts start in a time range",
    rate=Rate("work order view"),
    example=lambda: ("WO-10193", *_get_day_bounds(SAMPLE_DAY)),
)
def staff_of_work_order_between(
    workorder_id: WorkOrderId, since: datetime, until: datetime
) -> Query[MaintenanceShift]:
    return MaintenanceShift.by_work_order(workorder_id).between(since, until)


@pattern("MX3", "The staff of several work orders", rate=Rate("disruption", 2), example=(["WO-10193"],))
def staff_of_work_orders(workorder_ids: Sequence[WorkOrderId]) -> ParallelQuery[MaintenanceShift]:
    return parallel_query(MaintenanceShift.by_work_order(each).query() for each in workorder_ids)


@pattern("MX4", "The work orders of an aircraft", rate=DISRUPTION, example=("A6-BLA",))
def work_orders_of_aircraft(registration: TailNumber) -> Query[WorkOrder]:
    return WorkOrder.of(registration).query()


@pattern(
    "MX5",
    "The work orders of several aircraft, to find one that may fly",
    rate=Rate("disruption", 15),
    example=(["A6-BLA"],),
)
def work_orders_of_several_aircraft(registrations: Sequence[TailNumber]) -> ParallelQuery[WorkOrder]:
    return parallel_query(WorkOrder.of(each).query() for each in registrations)


# --- disruptions ----------------------------------------------------------------------------------


@pattern("DX1", "The decision on a disruption", rate=DISRUPTION, example=("D-1",))
def disruption(disruption_id: DisruptionId) -> Get[Disruption]:
    return Disruption.of(disruption_id).get()


@pattern("DX2", "The disruptions that affected a passenger", rate=LOOKUP, example=("OZ69826352P",))
def disruptions_of_passenger(passenger_id: PassengerId) -> Query[DisruptedPassenger]:
    return DisruptedPassenger.of(passenger_id).query()


@pattern("DX3", "The affected passengers of a flight, highest risk first", rate=DISRUPTION, example=("EY11",))
def disrupted_on_flight(flight_number: FlightNumber) -> Query[DisruptedPassenger]:
    """Query the affected passengers of a flight number, of all its disruptions, highest risk first."""
    return DisruptedPassenger.by_flight(flight_number).query()


@pattern(
    "DX4", "Record a decision, if its id is new", rate=DISRUPTION, example=lambda: (examples.disruption(),)
)
def record_disruption(disruption: Disruption) -> Put[Disruption]:
    """Create the record of a decision. The condition fails if its id exists."""
    return Disruption.create(disruption)


@pattern(
    "DX5",
    "Move a flight to other times, if it has not changed since it was read",
    rate=DISRUPTION,
    example=lambda: ("1", 1, *_get_day_bounds(SAMPLE_DAY), "41"),
)
def delay_flight(
    flight_id: FlightId, seen: int, departure: datetime, arrival: datetime, delay_code: str | None = None
) -> Update[Flight]:
    """Set the estimated times and the status DELAYED, if the flight's version is still `seen`."""
    return _build_times_update(flight_id, seen, departure, arrival, delay_code)


@pattern(
    "DX6",
    "Give a flight another aircraft and other times, if it has not changed since it was read",
    rate=DISRUPTION,
    example=lambda: ("2", 1, "A6-BLB", "B789", 290, *_get_day_bounds(SAMPLE_DAY), None),
)
def swap_aircraft(
    flight_id: FlightId,
    seen: int,
    registration: TailNumber,
    aircraft_type: str,
    capacity: int,
    departure: datetime,
    arrival: datetime,
    delay_code: str | None = None,
) -> Update[Flight]:
    """Set the new aircraft, its seats, the estimated times and the status DELAYED.

    The condition is that the flight's version is still `seen`.
    """
    return (
        _build_times_update(flight_id, seen, departure, arrival, delay_code)
        .set(Flight.aircraft_registration, registration)
        .set(Flight.aircraft_type, aircraft_type)
        .set(Flight.capacity, capacity)
    )


@pattern(
    "DX10",
    "Give a flight another aircraft and its scheduled times, if it has not changed since it was read",
    rate=DISRUPTION,
    example=lambda: ("6", 1, "A6-BLB", "B789", 290),
)
def swap_aircraft_on_time(
    flight_id: FlightId, seen: int, registration: TailNumber, aircraft_type: str, capacity: int
) -> Update[Flight]:
    """Set the new aircraft and its seats, clear estimates and delay code, and set the status SCHEDULED.

    The condition is that the flight's version is still `seen`.
    """
    return (
        Flight.of(flight_id)
        .update()
        .set(Flight.flight_status, SCHEDULED)
        .remove(Flight.estimated_departure)
        .remove(Flight.estimated_arrival)
        .remove(Flight.delay_code)
        .set(Flight.aircraft_registration, registration)
        .set(Flight.aircraft_type, aircraft_type)
        .set(Flight.capacity, capacity)
        .at_version(Flight.version, seen)
    )


@pattern(
    "DX9",
    "Cancel a flight, if it has not changed since it was read",
    rate=DISRUPTION,
    example=("5", 1, "41"),
)
def cancel_flight(flight_id: FlightId, seen: int, delay_code: str | None = None) -> Update[Flight]:
    """Set the status CANCELLED and, if given, the delay code, if the flight's version is still `seen`."""
    change = (
        Flight.of(flight_id).update().set(Flight.flight_status, CANCELLED).at_version(Flight.version, seen)
    )
    return change if delay_code is None else change.set(Flight.delay_code, delay_code)


@pattern(
    "DX7",
    "Record the affected passengers",
    rate=DISRUPTED_PASSENGER,
    example=lambda: ([examples.disrupted_passenger()],),
)
def note_disrupted_passengers(rows: Sequence[DisruptedPassenger]) -> BatchPut[DisruptedPassenger]:
    """Put the rows of affected passengers, overwriting rows with the same passenger and disruption."""
    return batch_put(DisruptedPassenger.put(row) for row in rows)


@pattern("DX8", "Mark a disruption as settled", rate=DISRUPTION, example=("D-1",))
def settle_disruption(disruption_id: DisruptionId) -> Update[Disruption]:
    """Mark a decision as settled: all rows of its passengers are written."""
    return Disruption.of(disruption_id).update().set(Disruption.settled, True)


# --- imports --------------------------------------------------------------------------------------


@pattern("IN1", "Import bookings", rate=Rate("booking change"), example=lambda: ([examples.booking()],))
def import_bookings(rows: Sequence[Booking]) -> BatchPut[Booking]:
    return batch_put(Booking.put(row) for row in rows)


@pattern("IN2", "Import bags", rate=Rate("bag change"), example=lambda: ([examples.bag()],))
def import_bags(rows: Sequence[Bag]) -> BatchPut[Bag]:
    return batch_put(Bag.put(row) for row in rows)


@pattern(
    "IN3",
    "Import crew assignments into an empty table",
    rate=FIRST_LOAD,
    example=lambda: ([examples.crew_assignment()],),
)
def import_crew_assignments(rows: Sequence[CrewAssignment]) -> BatchPut[CrewAssignment]:
    """Put rows of the old roster table without a condition: existing ones would be overwritten."""
    return batch_put(CrewAssignment.put(row) for row in rows)


@pattern(
    "IN4",
    "Import cargo assignments",
    rate=Rate("cargo change"),
    example=lambda: ([examples.cargo_assignment()],),
)
def import_cargo(rows: Sequence[CargoAssignment]) -> BatchPut[CargoAssignment]:
    return batch_put(CargoAssignment.put(row) for row in rows)


@pattern(
    "IN5",
    "Import maintenance shifts",
    rate=Rate("shift change"),
    example=lambda: ([examples.maintenance_shift()],),
)
def import_maintenance_shifts(rows: Sequence[MaintenanceShift]) -> BatchPut[MaintenanceShift]:
    return batch_put(MaintenanceShift.put(row) for row in rows)


@pattern(
    "IN6",
    "Import passengers",
    rate=Rate("passenger change"),
    example=lambda: ([examples.passenger()],),
)
def import_passengers(rows: Sequence[Passenger]) -> BatchPut[Passenger]:
    return batch_put(Passenger.put(row) for row in rows)


@pattern(
    "IN10",
    "Import a flight, unless the stored version is newer",
    rate=DEPARTURE,
    example=lambda: (examples.flight(),),
)
def import_flight(row: Flight) -> Put[Flight]:
    """Put a flight if it is absent or its stored version is not newer."""
    return Flight.put(row).when(Flight.flight_id.not_exists() | (Flight.version <= row.version))


@pattern(
    "IN11",
    "Import a crew assignment, unless the stored version is newer",
    rate=Rate("roster change"),
    example=lambda: (examples.crew_assignment(),),
)
def import_crew_assignment(row: CrewAssignment) -> Put[CrewAssignment]:
    """Put a row of the old roster table if it is absent or its stored version is not newer."""
    known = CrewAssignment.version <= row.version
    return CrewAssignment.put(row).when(CrewAssignment.roster_id.not_exists() | known)


@pattern(
    "IN12",
    "Import a duty into the new roster, unless the stored version is newer",
    rate=Rate("roster change"),
    example=lambda: (examples.crew_duty(),),
)
def import_crew_duty(row: CrewDuty) -> Put[CrewDuty]:
    """Put a row of the new roster table if it is absent or its stored version is not newer."""
    return CrewDuty.put(row).when(CrewDuty.crew_id.not_exists() | (CrewDuty.version <= row.version))


@pattern("IN7", "Import flights into an empty table", rate=FIRST_LOAD, example=lambda: ([examples.flight()],))
def import_flights(rows: Sequence[Flight]) -> BatchPut[Flight]:
    """Put flights without a condition: existing ones would be overwritten."""
    return batch_put(Flight.put(row) for row in rows)


@pattern(
    "IN8",
    "Import work orders",
    rate=Rate("work order change"),
    example=lambda: ([examples.work_order()],),
)
def import_work_orders(rows: Sequence[WorkOrder]) -> BatchPut[WorkOrder]:
    return batch_put(WorkOrder.put(row) for row in rows)


@pattern(
    "IN9",
    "Import duties into an empty table",
    rate=FIRST_LOAD,
    example=lambda: ([examples.crew_duty()],),
)
def import_crew_duties(rows: Sequence[CrewDuty]) -> BatchPut[CrewDuty]:
    """Put rows of the new roster table without a condition: existing ones would be overwritten."""
    return batch_put(CrewDuty.put(row) for row in rows)


def _build_times_update(
    flight_id: FlightId,
    seen: int,
    departure: datetime,
    arrival: datetime,
    delay_code: str | None,
) -> Update[Flight]:
    """Build the update that marks a flight as delayed and sets its estimated times.

    The condition is that the version is still `seen`. Without a `delay_code`, the stored one stays.
    """
    change = (
        Flight.of(flight_id)
        .update()
        .set(Flight.flight_status, DELAYED)
        .set(Flight.estimated_departure, departure)
        .set(Flight.estimated_arrival, arrival)
        .at_version(Flight.version, seen)
    )
    return change if delay_code is None else change.set(Flight.delay_code, delay_code)


def _get_day_bounds(day: date) -> tuple[datetime, datetime]:
    """Return the first and the last second of a day, UTC. Both are included in a range."""
    start = datetime.combine(day, time(), UTC)
    return start, start + timedelta(days=1, seconds=-1)
