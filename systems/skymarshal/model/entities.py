"""SkyMarshal's DynamoDB tables, their global secondary indexes, and the entities stored in them.

Names, keys and indexes are those of the design document. Additions: the tables WorkOrders (open work per
aircraft), CrewRoster_v2 (the document's optional redesign, with the roster id in its sort key so that two
sectors of one duty do not collide) and Disruptions (decisions, with their author); and the attributes that
the queries need but the document does not list: capacity, times and route of a flight, the number of bags
that a booking has paid for. The access patterns are in `patterns.py`.

Entities reject invalid values (a duty that ends before it starts, a negative weight) whatever their source.
An airport only has to look like an IATA code: the airport table does not hold every airport of the world, and
a bag may turn up at any of them. Code that needs a position or a local time looks the airport up and reports
a missing one.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Annotated, NewType, Self

from pydantic import Field, model_validator

from holdfast import Attr, Document, Entity, IndexKey, Key, Table, attr, keep_names
from holdfast.model.entities import TimestampSeconds
from skymarshal.domain.identifiers import (
    MAX_YEAR,
    MIN_YEAR,
    AirportCode,
    AwbNumber,
    BagTag,
    Day,
    FlightNumber,
    Pnr,
    TailNumber,
    UldNumber,
)
from skymarshal.domain.statuses import (
    BaggageStatus,
    BookingStatus,
    CargoSpecialHandling,
    CrewPosition,
    CrewStatus,
    DisruptionKind,
    LoadingStatus,
    MelCategory,
    ReputationRisk,
    WorkOrderStatus,
)

PassengerId = NewType("PassengerId", str)
BookingId = NewType("BookingId", str)
FlightId = NewType("FlightId", str)
CrewId = NewType("CrewId", str)
RosterId = NewType("RosterId", str)
ShipmentId = NewType("ShipmentId", str)
AssignmentId = NewType("AssignmentId", str)
WorkOrderId = NewType("WorkOrderId", str)
StaffId = NewType("StaffId", str)
DisruptionId = NewType("DisruptionId", str)

Count = Annotated[int, Field(ge=0)]
Weight = Annotated[Decimal, Field(ge=0)]

# --- tables ---------------------------------------------------------------------------------------

passengers = Table(
    "Passengers", "passenger_id", naming=keep_names, point_in_time_recovery=True, purpose="Passengers"
)
frequent_flyer_index = passengers.global_index(
    "frequent-flyer-index", "frequent_flyer_number", default=False, purpose="Loyalty programme lookups"
)
pnr_index = passengers.global_index("pnr-index", "pnr", default=False, purpose="Lookups by booking reference")

flights = Table(
    "Flights",
    "flight_id",
    naming=keep_names,
    point_in_time_recovery=True,
    purpose="Flights with route, times and aircraft",
)
flight_number_date_index = flights.global_index(
    "flight-number-date-index",
    "flight_number",
    "scheduled_departure",
    purpose="Find 'EY11 tomorrow'. On by default: disruptions are reported by flight number",
)
aircraft_utilization_index = flights.global_index(
    "aircraft-utilization-index",
    "aircraft_registration",
    "scheduled_departure",
    purpose="All flights of an aircraft. On by default: a delay travels with the aircraft",
)

bookings = Table(
    "Bookings", "booking_id", naming=keep_names, point_in_time_recovery=True, purpose="Seats sold"
)
passenger_flight_index = bookings.global_index(
    "passenger-flight-index", "passenger_id", "flight_id", purpose="A passenger's bookings; duplicate check"
)
flight_status_index = bookings.global_index(
    "flight-status-index", "flight_id", "booking_status", purpose="Manifest, waitlist, seats left"
)

baggage = Table(
    "Baggage",
    "baggage_tag",
    naming=keep_names,
    point_in_time_recovery=True,
    purpose="Bags and their location",
)
booking_index = baggage.global_index("booking-index", "booking_id", purpose="The bags of a booking")
location_status_index = baggage.global_index(
    "location-status-index", "current_location", "baggage_status", purpose="Bags at an airport, by status"
)

crew_roster = Table(
    "CrewRoster",
    "roster_id",
    naming=keep_names,
    stream="NEW_AND_OLD_IMAGES",
    point_in_time_recovery=True,
    purpose="Crew assigned to flights",
)
flight_position_index = crew_roster.global_index(
    "flight-position-index", "flight_id", "position_id", purpose="The crew of a flight, by position"
)

crew_roster_v2 = Table(
    "CrewRoster_v2",
    "crew_id",
    "duty_start_roster",
    naming=keep_names,
    point_in_time_recovery=True,
    purpose="Crew assigned to flights, by crew member and time",
)
flight_position_index_v2 = crew_roster_v2.global_index(
    "flight-position-index", "flight_id", "position_id", purpose="The crew of a flight, by position"
)

cargo = Table(
    "CargoFlightAssignments",
    "assignment_id",
    naming=keep_names,
    point_in_time_recovery=True,
    purpose="Cargo assigned to flights",
)
flight_loading_index = cargo.global_index(
    "flight-loading-index", "flight_id", "loading_status", purpose="The cargo of a flight, by loading status"
)
shipment_index = cargo.global_index("shipment-index", "shipment_id", purpose="The flights of a shipment")

maintenance_roster = Table(
    "MaintenanceRoster",
    "roster_id",
    naming=keep_names,
    point_in_time_recovery=True,
    purpose="Staff assigned to work orders",
)
workorder_shift_index = maintenance_roster.global_index(
    "workorder-shift-index", "workorder_id", "shift_start_zulu", purpose="The staff of a work order, by shift"
)

work_orders = Table(
    "WorkOrders",
    "aircraft_registration",
    "workorder_id",
    naming=keep_names,
    point_in_time_recovery=True,
    purpose="Maintenance work per aircraft",
)

disruptions = Table(
    "Disruptions",
    "disruption_id",
    naming=keep_names,
    point_in_time_recovery=True,
    purpose="Decisions on disruptions, with their author",
)

disrupted_passengers = Table(
    "DisruptedPassengers",
    "passenger_id",
    "disruption_id",
    naming=keep_names,
    point_in_time_recovery=True,
    purpose="Passengers affected by each disruption",
)
flight_risk_index = disrupted_passengers.global_index(
    "flight-risk-index",
    "flight_number",
    "risk_rank",
    default=False,
    purpose="High-risk passengers of a flight",
)

TABLES = (
    bookings,
    baggage,
    crew_roster,
    cargo,
    maintenance_roster,
    passengers,
    flights,
    disrupted_passengers,
    crew_roster_v2,
    work_orders,
    disruptions,
)

# --- entities -------------------------------------------------------------------------------------


class Passenger(Entity, table=passengers):
    """A passenger's profile: name, booking reference, loyalty number and tier, and assistance needed."""

    passenger_id: Attr[PassengerId] = attr()
    name: Attr[str]
    pnr: Attr[Pnr | None] = attr(default=None)
    frequent_flyer_number: Attr[str | None] = attr(default=None)
    # Loyalty tier, and the IATA codes of the assistance the passenger needs (UMNR, WCHR, MEDA …).
    tier: Attr[str | None] = attr(default=None)
    special_services: Attr[list[str]] = attr(default_factory=list)

    of = Key(passenger_id)
    by_frequent_flyer = IndexKey(frequent_flyer_index, frequent_flyer_number)
    by_pnr = IndexKey(pnr_index, pnr)


class Flight(Entity, table=flights):
    """One flight on one day. `version` rises with every decision on it; `capacity` is the number of seats."""

    flight_id: Attr[FlightId] = attr()
    flight_number: Attr[FlightNumber] = attr()
    origin: Attr[AirportCode]
    destination: Attr[AirportCode]
    scheduled_departure: Attr[TimestampSeconds] = attr()
    scheduled_arrival: Attr[TimestampSeconds]
    estimated_departure: Attr[TimestampSeconds | None] = attr(default=None)
    estimated_arrival: Attr[TimestampSeconds | None] = attr(default=None)
    aircraft_registration: Attr[TailNumber] = attr()
    aircraft_type: Attr[str]
    capacity: Attr[Count]
    flight_status: Attr[str] = attr(default="SCHEDULED")
    delay_code: Attr[str | None] = attr(default=None)
    version: Attr[int] = attr(default=1)

    of = Key(flight_id)
    by_number = IndexKey(flight_number_date_index, flight_number, scheduled_departure)
    by_aircraft = IndexKey(aircraft_utilization_index, aircraft_registration, scheduled_departure)

    @model_validator(mode="after")
    def _check_route_and_times(self) -> Self:
        """Raise ValueError if both airports are the same or an arrival is not after its departure."""
        if self.origin == self.destination:
            raise ValueError(
                f"origin and destination are both {self.origin}: expected two different airports"
            )
        _check_order(
            "scheduled_departure", self.scheduled_departure, "scheduled_arrival", self.scheduled_arrival
        )
        if self.estimated_departure is not None and self.estimated_arrival is not None:
            _check_order("estimated_departure", self.departure, "estimated_arrival", self.arrival)
        return self

    @property
    def departure(self) -> datetime:
        """The estimated departure, or without an estimate the scheduled one."""
        return self.estimated_departure or self.scheduled_departure

    @property
    def arrival(self) -> datetime:
        """The estimated arrival, or without an estimate the scheduled one."""
        return self.estimated_arrival or self.scheduled_arrival


class Booking(Entity, table=bookings):
    """One passenger's booking on one flight, with its status, seat and number of bags paid for."""

    booking_id: Attr[BookingId] = attr()
    passenger_id: Attr[PassengerId] = attr()
    flight_id: Attr[FlightId] = attr()
    booking_status: Attr[BookingStatus] = attr()
    seat_number: Attr[str | None] = attr(default=None)
    cabin: Attr[str] = attr(default="Y")
    pnr: Attr[Pnr | None] = attr(default=None)
    # Number of bags paid for; queries compare it with the bags found.
    bag_count: Attr[Count] = attr(default=0)
    fare_paid: Attr[Decimal | None] = attr(default=None)
    special_services: Attr[list[str]] = attr(default_factory=list)
    # The raw message that the booking arrived in.
    source_message: Attr[str | None] = attr(default=None)

    of = Key(booking_id)
    by_passenger = IndexKey(passenger_flight_index, passenger_id, flight_id)
    by_flight = IndexKey(flight_status_index, flight_id, booking_status)


class BagScan(Document):
    """One scan of a bag at a tracking point (IATA resolution 753)."""

    at: datetime
    location: str
    status: str


class Bag(Entity, table=baggage):
    """A checked bag of a booking, with its current airport, its status and its scans."""

    baggage_tag: Attr[BagTag] = attr()
    booking_id: Attr[BookingId] = attr()
    current_location: Attr[AirportCode] = attr()
    baggage_status: Attr[BaggageStatus] = attr()
    weight_kg: Attr[Weight | None] = attr(default=None)
    scans: Attr[list[BagScan]] = attr(default_factory=list)
    source_message: Attr[str | None] = attr(default=None)

    of = Key(baggage_tag)
    by_booking = IndexKey(booking_index, booking_id)
    by_location = IndexKey(location_status_index, current_location, baggage_status)


class CrewAssignment(Entity, table=crew_roster):
    """One crew member on one flight, keyed by roster id as in the design document."""

    roster_id: Attr[RosterId] = attr()
    crew_id: Attr[CrewId] = attr()
    flight_id: Attr[FlightId] = attr()
    position_id: Attr[CrewPosition] = attr()
    duty_start: Attr[TimestampSeconds]
    duty_end: Attr[TimestampSeconds]
    roster_status: Attr[CrewStatus] = attr(default=CrewStatus.ASSIGNED)
    home_base: Attr[AirportCode | None] = attr(default=None)
    version: Attr[int] = attr(default=1)
    source_message: Attr[str | None] = attr(default=None)

    of = Key(roster_id)
    by_flight = IndexKey(flight_position_index, flight_id, position_id)

    @model_validator(mode="after")
    def _check_times(self) -> Self:
        """Raise ValueError unless the duty ends after it starts."""
        _check_order("duty_start", self.duty_start, "duty_end", self.duty_end)
        return self


class CrewDuty(Entity, table=crew_roster_v2):
    """The content of a `CrewAssignment`, keyed by crew member, start of duty and roster id.

    'All duties of crew 123 in January 2026' is one query.
    """

    crew_id: Attr[CrewId] = attr()
    duty_start: Attr[TimestampSeconds] = attr()
    roster_id: Attr[RosterId] = attr()
    flight_id: Attr[FlightId] = attr()
    position_id: Attr[CrewPosition] = attr()
    duty_end: Attr[TimestampSeconds]
    roster_status: Attr[CrewStatus] = attr(default=CrewStatus.ASSIGNED)
    home_base: Attr[AirportCode | None] = attr(default=None)
    version: Attr[int] = attr(default=1)
    source_message: Attr[str | None] = attr(default=None)

    of = Key(crew_id, duty_start + "#" + roster_id)
    by_flight = IndexKey(flight_position_index_v2, flight_id, position_id)

    @model_validator(mode="after")
    def _check_times(self) -> Self:
        """Raise ValueError unless the duty ends after it starts."""
        _check_order("duty_start", self.duty_start, "duty_end", self.duty_end)
        return self


class CargoAssignment(Entity, table=cargo):
    """One shipment on one flight: a leg of the shipment's route, with its loading status and weight."""

    assignment_id: Attr[AssignmentId] = attr()
    shipment_id: Attr[ShipmentId] = attr()
    flight_id: Attr[FlightId] = attr()
    loading_status: Attr[LoadingStatus] = attr()
    weight_on_flight_kg: Attr[Weight | None] = attr(default=None)
    uld_number: Attr[UldNumber | None] = attr(default=None)
    awb_number: Attr[AwbNumber | None] = attr(default=None)
    pieces: Attr[Count | None] = attr(default=None)
    # Position in the shipment's route, starting at 1.
    leg: Attr[int] = attr(default=1)
    special_handling: Attr[list[CargoSpecialHandling]] = attr(default_factory=list)
    source_message: Attr[str | None] = attr(default=None)

    of = Key(assignment_id)
    by_flight = IndexKey(flight_loading_index, flight_id, loading_status)
    by_shipment = IndexKey(shipment_index, shipment_id)


class MaintenanceShift(Entity, table=maintenance_roster):
    """One shift of a member of the maintenance staff on a work order."""

    roster_id: Attr[RosterId] = attr()
    staff_id: Attr[StaffId]
    workorder_id: Attr[WorkOrderId] = attr()
    shift_start_zulu: Attr[TimestampSeconds] = attr()
    shift_end_zulu: Attr[TimestampSeconds]
    licence: Attr[str | None] = attr(default=None)
    source_message: Attr[str | None] = attr(default=None)

    of = Key(roster_id)
    by_work_order = IndexKey(workorder_shift_index, workorder_id, shift_start_zulu)

    @model_validator(mode="after")
    def _check_times(self) -> Self:
        """Raise ValueError unless the shift ends after it starts."""
        _check_order("shift_start_zulu", self.shift_start_zulu, "shift_end_zulu", self.shift_end_zulu)
        return self


class WorkOrder(Entity, table=work_orders):
    """Maintenance work on one aircraft. `mel_category` limits how long it may be deferred."""

    aircraft_registration: Attr[TailNumber] = attr()
    workorder_id: Attr[WorkOrderId] = attr()
    work_status: Attr[WorkOrderStatus] = attr(default=WorkOrderStatus.OPEN)
    mel_category: Attr[MelCategory | None] = attr(default=None)
    opened_on: Attr[Day]
    task: Attr[str] = attr(default="")
    staff_required: Attr[Count] = attr(default=1)

    of = Key(aircraft_registration, workorder_id)


class Disruption(Entity, table=disruptions):
    """The decision on a disruption. `settled` is true once every affected passenger's row is written."""

    disruption_id: Attr[DisruptionId] = attr()
    flight_id: Attr[FlightId]
    flight_number: Attr[FlightNumber]
    disruption_kind: Attr[DisruptionKind]
    delay_minutes: Attr[int] = attr(default=0)
    delay_code: Attr[str | None] = attr(default=None)
    aircraft_registration: Attr[TailNumber | None] = attr(default=None)
    # The delay that was reported; the chosen option may have another delay.
    minutes_told: Attr[int | None] = attr(default=None)
    option: Attr[str]
    decided_by: Attr[str]
    decided_at: Attr[datetime]
    passengers_hit: Attr[int] = attr(default=0)
    settled: Attr[bool] = attr(default=False)

    of = Key(disruption_id)


class DisruptedPassenger(Entity, table=disrupted_passengers):
    """A passenger affected by one disruption, with the reputation risk, the score and missed connections."""

    passenger_id: Attr[PassengerId] = attr()
    disruption_id: Attr[DisruptionId] = attr()
    flight_number: Attr[FlightNumber] = attr()
    # `1#HIGH`, `2#MEDIUM`, `3#LOW`: the words alone would sort as HIGH, LOW, MEDIUM.
    risk_rank: Attr[str] = attr()
    reputation_risk: Attr[ReputationRisk]
    booking_id: Attr[BookingId]
    missed_connections: Attr[int] = attr(default=0)
    score: Attr[Decimal] = attr(default=Decimal(0))

    of = Key(passenger_id, disruption_id)
    by_flight = IndexKey(flight_risk_index, flight_number, risk_rank)


def _check_order(start_name: str, start: datetime, end_name: str, end: datetime) -> None:
    """Raise ValueError unless both times are in the supported years and the second is after the first."""
    if not MIN_YEAR <= start.year <= end.year <= MAX_YEAR and start < end:
        raise ValueError(f"{start_name} and {end_name} are not between the years {MIN_YEAR} and {MAX_YEAR}")
    if end <= start:
        raise ValueError(
            f"{end_name} {end:%Y-%m-%dT%H:%MZ} is not after {start_name} {start:%Y-%m-%dT%H:%MZ}"
        )
