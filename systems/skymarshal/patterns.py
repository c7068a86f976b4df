"""How SkyMarshal's data is asked for: the access patterns, and nothing else touches a store.

Each names an index by the key it queries; none scans. What needs several of them is put together in `queries.py`
and `disruption.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta

from holdfast import (
    BatchGet,
    BatchPut,
    CountOf,
    Get,
    Parallel,
    Put,
    Query,
    Rate,
    Update,
    batch,
    batch_put,
    parallel,
    pattern,
)
from skymarshal import examples
from skymarshal.identifiers import AirportCode, BagTag, FlightNumber, Pnr, TailNumber
from skymarshal.model import (
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
from skymarshal.statuses import (
    BaggageStatus,
    BookingStatus,
    CrewPosition,
    LoadingStatus,
)

# --- patterns: flights and passengers ----------------------------------------------------------------------------

LOOKUP = Rate(per="passenger lookup")
DEPARTURE = Rate(per="departure")
DISRUPTION = Rate(per="disruption")
# Into tables that have nothing yet, so that nothing can be undone: no condition is needed.
FIRST_LOAD = Rate(per="first load")
# A pattern that asks for many keys has one of them as its example, and the rate of its keys: what it costs follows.
DISRUPTED_PASSENGER = Rate(per="disrupted passenger")

SAMPLE_DAY = date(2026, 1, 30)

# What a decision makes of a flight's status.
SCHEDULED, DELAYED, CANCELLED = "SCHEDULED", "DELAYED", "CANCELLED"


@pattern("FL1", "A flight", rate=DEPARTURE, example=("1",))
def flight(flight_id: FlightId) -> Get[Flight]:
    return Flight.of(flight_id).get()


@pattern("FL2", "Many flights by their ids", rate=Rate("disruption", 10), example=(["1"],))
def flights_by_id(flight_ids: Sequence[FlightId]) -> BatchGet[Flight]:
    return batch(Flight.of(flight_id).get() for flight_id in flight_ids)


@pattern("FL3", "A flight number on a day (UTC)", rate=Rate("disruption", 2), example=("EY11", SAMPLE_DAY))
def flights_numbered(flight_number: FlightNumber, day: date) -> Query[Flight]:
    return Flight.by_number(flight_number).between(*_day(day))


@pattern(
    "FL4",
    "Flights of several numbers between two moments: what passengers can be moved to",
    rate=Rate("disruption", 3),
    example=lambda: (["EY11"], *_day(SAMPLE_DAY)),
)
def flights_numbered_between(
    flight_numbers: Sequence[FlightNumber], since: datetime, until: datetime
) -> Parallel[Flight]:
    return parallel(Flight.by_number(number).between(since, until) for number in flight_numbers)


@pattern(
    "FL5",
    "What an aircraft flies between two moments",
    rate=Rate("disruption", 2),
    example=lambda: ("A6-BLA", *_day(SAMPLE_DAY)),
)
def flights_of_aircraft(registration: TailNumber, since: datetime, until: datetime) -> Query[Flight]:
    return Flight.by_aircraft(registration).between(since, until)


@pattern(
    "FL6",
    "What several aircraft fly between two moments: which is free",
    rate=Rate("disruption", 15),
    example=lambda: (["A6-BLA"], *_day(SAMPLE_DAY)),
)
def flights_of_several_aircraft(
    registrations: Sequence[TailNumber], since: datetime, until: datetime
) -> Parallel[Flight]:
    return parallel(Flight.by_aircraft(each).between(since, until) for each in registrations)


@pattern("PX1", "A passenger", rate=LOOKUP, example=("OZ69826352P",))
def passenger(passenger_id: PassengerId) -> Get[Passenger]:
    return Passenger.of(passenger_id).get()


@pattern("PX2", "Many passengers by their ids", rate=DISRUPTED_PASSENGER, example=(["OZ69826352P"],))
def passengers_by_id(passenger_ids: Sequence[PassengerId]) -> BatchGet[Passenger]:
    return batch(Passenger.of(passenger_id).get() for passenger_id in passenger_ids)


@pattern("PX3", "Passengers by frequent flyer number", rate=Rate("loyalty lookup"), example=("EY100000001",))
def passengers_of_frequent_flyer(number: str) -> Query[Passenger]:
    return Passenger.by_frequent_flyer(number).query()


@pattern("PX4", "Passengers by booking reference", rate=Rate("loyalty lookup"), example=("OZ6982",))
def passengers_of_pnr(pnr: Pnr) -> Query[Passenger]:
    return Passenger.by_pnr(pnr).query()


# --- patterns: bookings ------------------------------------------------------------------------------------------


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
def bookings_of_passengers(passenger_ids: Sequence[PassengerId]) -> Parallel[Booking]:
    return parallel(Booking.by_passenger(passenger_id).query() for passenger_id in passenger_ids)


@pattern(
    "BK5",
    "Bookings on a flight with one status: the manifest, the waitlist",
    rate=DEPARTURE,
    example=("1", "Confirmed"),
)
def bookings_on_flight(flight_id: FlightId, status: BookingStatus) -> Query[Booking]:
    return Booking.by_flight(flight_id).at(status)


@pattern(
    "BK6",
    "How many bookings on a flight have a status: seats taken",
    rate=Rate("departure", 4),
    example=("1", "Confirmed"),
)
def count_on_flight(flight_id: FlightId, status: BookingStatus) -> CountOf[Booking]:
    return Booking.by_flight(flight_id).at(status).count()


@pattern(
    "BK7",
    "Bookings on a flight with a status from … to …, by the alphabet",
    rate=DEPARTURE,
    example=("1", "Cancelled", "Confirmed"),
)
def bookings_on_flight_between(
    flight_id: FlightId, low: BookingStatus, high: BookingStatus
) -> Query[Booking]:
    return Booking.by_flight(flight_id).between(low, high)


# --- patterns: baggage -------------------------------------------------------------------------------------------


@pattern("BG1", "A bag", rate=Rate("bag scan"), example=("0607000001",))
def bag(baggage_tag: BagTag) -> Get[Bag]:
    return Bag.of(baggage_tag).get()


@pattern("BG2", "The bags of a booking", rate=LOOKUP, example=("1",))
def bags_of_booking(booking_id: BookingId) -> Query[Bag]:
    return Bag.by_booking(booking_id).query()


@pattern("BG3", "The bags of many bookings", rate=DISRUPTED_PASSENGER, example=(["1"],))
def bags_of_bookings(booking_ids: Sequence[BookingId]) -> Parallel[Bag]:
    return parallel(Bag.by_booking(booking_id).query() for booking_id in booking_ids)


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
    "How many bags an airport has with one status",
    rate=Rate("airport view"),
    example=("AUH", "LOADED"),
)
def count_bags_at(location: AirportCode, status: BaggageStatus) -> CountOf[Bag]:
    return Bag.by_location(location).at(status).count()


# --- patterns: crew ----------------------------------------------------------------------------------------------


@pattern("CR1", "The crew of a flight", rate=DEPARTURE, example=("1",))
def crew_of_flight(flight_id: FlightId) -> Query[CrewAssignment]:
    return CrewAssignment.by_flight(flight_id).query()


@pattern("CR2", "The crew of a flight in one position", rate=DEPARTURE, example=("1", "1"))
def crew_in_position(flight_id: FlightId, position: CrewPosition) -> Query[CrewAssignment]:
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
    "A crew member's duties that begin between two moments",
    rate=Rate("roster view"),
    example=lambda: ("123", datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 31, 23, 59, 59, tzinfo=UTC)),
)
def duties_of_crew(crew_id: CrewId, since: datetime, until: datetime) -> Query[CrewDuty]:
    return CrewDuty.of(crew_id).between(since, until)


@pattern(
    "CR6",
    "The duties of several crew members that begin between two moments",
    rate=Rate("disruption", 9),
    example=lambda: (
        ["123"],
        datetime(2026, 1, 1, tzinfo=UTC),
        datetime(2026, 1, 31, 23, 59, 59, tzinfo=UTC),
    ),
)
def duties_of_crews(crew_ids: Sequence[CrewId], since: datetime, until: datetime) -> Parallel[CrewDuty]:
    return parallel(CrewDuty.of(crew_id).between(since, until) for crew_id in crew_ids)


# --- patterns: cargo and maintenance -----------------------------------------------------------------------------


@pattern("CG1", "The cargo of a flight", rate=DEPARTURE, example=("5",))
def cargo_on_flight(flight_id: FlightId) -> Query[CargoAssignment]:
    return CargoAssignment.by_flight(flight_id).query()


@pattern("CG2", "The cargo of a flight with one loading status", rate=DEPARTURE, example=("5", "LOADED"))
def cargo_on_flight_with(flight_id: FlightId, status: LoadingStatus) -> Query[CargoAssignment]:
    return CargoAssignment.by_flight(flight_id).at(status)


@pattern("CG3", "A shipment over its flights", rate=Rate("shipment lookup"), example=("42",))
def shipment_legs(shipment_id: ShipmentId) -> Query[CargoAssignment]:
    return CargoAssignment.by_shipment(shipment_id).query()


@pattern(
    "MX1", "The staff of a work order, in shift order", rate=Rate("work order view"), example=("WO-10193",)
)
def staff_of_work_order(workorder_id: WorkOrderId) -> Query[MaintenanceShift]:
    return MaintenanceShift.by_work_order(workorder_id).query()


@pattern(
    "MX2",
    "The staff of a work order whose shifts begin between two moments",
    rate=Rate("work order view"),
    example=lambda: ("WO-10193", *_day(SAMPLE_DAY)),
)
def staff_of_work_order_between(
    workorder_id: WorkOrderId, since: datetime, until: datetime
) -> Query[MaintenanceShift]:
    return MaintenanceShift.by_work_order(workorder_id).between(since, until)


@pattern("MX3", "The staff of several work orders", rate=Rate("disruption", 2), example=(["WO-10193"],))
def staff_of_work_orders(workorder_ids: Sequence[WorkOrderId]) -> Parallel[MaintenanceShift]:
    return parallel(MaintenanceShift.by_work_order(each).query() for each in workorder_ids)


@pattern("MX4", "The work orders of an aircraft", rate=DISRUPTION, example=("A6-BLA",))
def work_orders_of_aircraft(registration: TailNumber) -> Query[WorkOrder]:
    return WorkOrder.of(registration).query()


@pattern(
    "MX5",
    "The work orders of several aircraft: which may fly",
    rate=Rate("disruption", 15),
    example=(["A6-BLA"],),
)
def work_orders_of_several_aircraft(registrations: Sequence[TailNumber]) -> Parallel[WorkOrder]:
    return parallel(WorkOrder.of(each).query() for each in registrations)


# --- patterns: disruptions ---------------------------------------------------------------------------------------


@pattern("DX1", "A decided disruption", rate=DISRUPTION, example=("D-1",))
def disruption(disruption_id: DisruptionId) -> Get[Disruption]:
    return Disruption.of(disruption_id).get()


@pattern("DX2", "The disruptions that hit a passenger", rate=LOOKUP, example=("OZ69826352P",))
def disruptions_of_passenger(passenger_id: PassengerId) -> Query[DisruptedPassenger]:
    return DisruptedPassenger.of(passenger_id).query()


@pattern(
    "DX3", "The passengers of a flight who were hit, highest risk first", rate=DISRUPTION, example=("EY11",)
)
def disrupted_on_flight(flight_number: FlightNumber) -> Query[DisruptedPassenger]:
    return DisruptedPassenger.by_flight(flight_number).query()


@pattern("DX4", "Record a decision, once", rate=DISRUPTION, example=lambda: (examples.disruption(),))
def record_disruption(disruption: Disruption) -> Put[Disruption]:
    return Disruption.create(disruption)


@pattern(
    "DX5",
    "Move a flight to other times, if nobody changed it since it was read",
    rate=DISRUPTION,
    example=lambda: ("1", 1, *_day(SAMPLE_DAY), "41"),
)
def delay_flight(
    flight_id: FlightId, seen: int, departure: datetime, arrival: datetime, delay_code: str | None = None
) -> Update[Flight]:
    return _moved(flight_id, seen, departure, arrival, delay_code)


@pattern(
    "DX6",
    "Give a flight another aircraft and other times, if nobody changed it since it was read",
    rate=DISRUPTION,
    example=lambda: ("2", 1, "A6-BLB", "B789", 290, *_day(SAMPLE_DAY), None),
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
    return (
        _moved(flight_id, seen, departure, arrival, delay_code)
        .set(Flight.aircraft_registration, registration)
        .set(Flight.aircraft_type, aircraft_type)
        .set(Flight.capacity, capacity)
    )


@pattern(
    "DX10",
    "Give a flight another aircraft with which it leaves on time, if nobody changed it since it was read",
    rate=DISRUPTION,
    example=lambda: ("6", 1, "A6-BLB", "B789", 290),
)
def swap_aircraft_on_time(
    flight_id: FlightId, seen: int, registration: TailNumber, aircraft_type: str, capacity: int
) -> Update[Flight]:
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
    "Cancel a flight, if nobody changed it since it was read",
    rate=DISRUPTION,
    example=("5", 1, "41"),
)
def cancel_flight(flight_id: FlightId, seen: int, delay_code: str | None = None) -> Update[Flight]:
    change = (
        Flight.of(flight_id).update().set(Flight.flight_status, CANCELLED).at_version(Flight.version, seen)
    )
    return change if delay_code is None else change.set(Flight.delay_code, delay_code)


@pattern(
    "DX7",
    "Note the passengers who are hit",
    rate=DISRUPTED_PASSENGER,
    example=lambda: ([examples.hit()],),
)
def note_disrupted_passengers(rows: Sequence[DisruptedPassenger]) -> BatchPut[DisruptedPassenger]:
    return batch_put(DisruptedPassenger.put(row) for row in rows)


@pattern("DX8", "Mark a disruption as settled", rate=DISRUPTION, example=("D-1",))
def settle_disruption(disruption_id: DisruptionId) -> Update[Disruption]:
    return Disruption.of(disruption_id).update().set(Disruption.settled, True)


# --- patterns: what comes in -------------------------------------------------------------------------------------


@pattern(
    "IN1", "Bookings as they come in", rate=Rate("booking change"), example=lambda: ([examples.booking()],)
)
def import_bookings(rows: Sequence[Booking]) -> BatchPut[Booking]:
    return batch_put(Booking.put(row) for row in rows)


@pattern("IN2", "Bags as they come in", rate=Rate("bag change"), example=lambda: ([examples.bag()],))
def import_bags(rows: Sequence[Bag]) -> BatchPut[Bag]:
    return batch_put(Bag.put(row) for row in rows)


@pattern(
    "IN3",
    "Crew assignments of a first load, many at once",
    rate=FIRST_LOAD,
    example=lambda: ([examples.assignment()],),
)
def import_crew_assignments(rows: Sequence[CrewAssignment]) -> BatchPut[CrewAssignment]:
    return batch_put(CrewAssignment.put(row) for row in rows)


@pattern(
    "IN4",
    "Cargo assignments as they come in",
    rate=Rate("cargo change"),
    example=lambda: ([examples.cargo()],),
)
def import_cargo(rows: Sequence[CargoAssignment]) -> BatchPut[CargoAssignment]:
    return batch_put(CargoAssignment.put(row) for row in rows)


@pattern(
    "IN5",
    "Maintenance shifts as they come in",
    rate=Rate("shift change"),
    example=lambda: ([examples.shift()],),
)
def import_maintenance_shifts(rows: Sequence[MaintenanceShift]) -> BatchPut[MaintenanceShift]:
    return batch_put(MaintenanceShift.put(row) for row in rows)


@pattern(
    "IN6",
    "Passengers as they come in",
    rate=Rate("passenger change"),
    example=lambda: ([examples.passenger()],),
)
def import_passengers(rows: Sequence[Passenger]) -> BatchPut[Passenger]:
    return batch_put(Passenger.put(row) for row in rows)


@pattern(
    "IN10",
    "A flight as it comes in, unless it was changed here since",
    rate=DEPARTURE,
    example=lambda: (examples.flight(),),
)
def import_flight(row: Flight) -> Put[Flight]:
    return Flight.put(row).when(Flight.flight_id.missing() | (Flight.version <= row.version))


@pattern(
    "IN11",
    "A crew assignment as it comes in, unless it was changed here since",
    rate=Rate("roster change"),
    example=lambda: (examples.assignment(),),
)
def import_crew_assignment(row: CrewAssignment) -> Put[CrewAssignment]:
    known = CrewAssignment.version <= row.version
    return CrewAssignment.put(row).when(CrewAssignment.roster_id.missing() | known)


@pattern(
    "IN12",
    "A duty of the new roster as it comes in, unless it was changed here since",
    rate=Rate("roster change"),
    example=lambda: (examples.duty(),),
)
def import_crew_duty(row: CrewDuty) -> Put[CrewDuty]:
    return CrewDuty.put(row).when(CrewDuty.crew_id.missing() | (CrewDuty.version <= row.version))


@pattern(
    "IN7", "Flights of a first load, many at once", rate=FIRST_LOAD, example=lambda: ([examples.flight()],)
)
def import_flights(rows: Sequence[Flight]) -> BatchPut[Flight]:
    return batch_put(Flight.put(row) for row in rows)


@pattern(
    "IN8",
    "Work orders as they come in",
    rate=Rate("work order change"),
    example=lambda: ([examples.work_order()],),
)
def import_work_orders(rows: Sequence[WorkOrder]) -> BatchPut[WorkOrder]:
    return batch_put(WorkOrder.put(row) for row in rows)


@pattern(
    "IN9",
    "Duties of a first load, many at once",
    rate=FIRST_LOAD,
    example=lambda: ([examples.duty()],),
)
def import_crew_duties(rows: Sequence[CrewDuty]) -> BatchPut[CrewDuty]:
    return batch_put(CrewDuty.put(row) for row in rows)


def _moved(
    flight_id: FlightId,
    seen: int,
    departure: datetime,
    arrival: datetime,
    delay_code: str | None,
) -> Update[Flight]:
    change = (
        Flight.of(flight_id)
        .update()
        .set(Flight.flight_status, DELAYED)
        .set(Flight.estimated_departure, departure)
        .set(Flight.estimated_arrival, arrival)
        .at_version(Flight.version, seen)
    )
    return change if delay_code is None else change.set(Flight.delay_code, delay_code)


def _day(day: date) -> tuple[datetime, datetime]:
    """The first and the last second of a day, UTC."""
    start = datetime.combine(day, time(), UTC)
    return start, start + timedelta(days=1, seconds=-1)
