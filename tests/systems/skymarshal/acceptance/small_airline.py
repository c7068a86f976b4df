"""Helpers that build small airlines row by row in memory, so that tests can compute figures on paper."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, TypeVar

from holdfast import Entity, Stores, open_memory_stores
from holdfast.model.operations import Operation
from holdfast.operations.tables import Scan
from holdfast.runtime import create_tables
from skymarshal.disruptions.assessment import assess
from skymarshal.disruptions.decision import Choice, Decision, confirm
from skymarshal.disruptions.report import DisruptionRequest, Report
from skymarshal.domain.statuses import (
    BaggageStatus,
    BookingStatus,
    CargoSpecialHandling,
    CrewPosition,
    CrewStatus,
    LoadingStatus,
    MelCategory,
    WorkOrderStatus,
)
from skymarshal.model.entities import (
    AssignmentId,
    Bag,
    Booking,
    BookingId,
    CargoAssignment,
    CrewAssignment,
    CrewId,
    Flight,
    FlightId,
    MaintenanceShift,
    Passenger,
    PassengerId,
    RosterId,
    ShipmentId,
    StaffId,
    WorkOrder,
    WorkOrderId,
)
from skymarshal.model.roster import build_switched_state, to_duty
from skymarshal.system import SYSTEM

R = TypeVar("R")

DAY = date(2026, 1, 30)
EVENING_BEFORE = datetime(2026, 1, 29, 22, tzinfo=UTC)
# One disruption of each kind, without the flight.
DISRUPTIONS: dict[str, dict[str, Any]] = {
    "delay": {"delay_minutes": 240},
    "cancel": {},
    "swap": {"swap_to": "A6-BLB"},
}


def at(hour: int, minute: int = 0) -> datetime:
    """Return a UTC time by hours and minutes from the start of the test's day; they may leave that day."""
    return datetime(2026, 1, 30, tzinfo=UTC) + timedelta(hours=hour, minutes=minute)


DEPARTS, ARRIVES = at(2), at(9, 40)


class Airline:
    """Stores with blocking calls of the system.

    `roster_moved` means that crews are also in the new roster table.
    """

    def __init__(self, stores: Stores, roster_moved: bool = True) -> None:
        self.stores, self._roster_moved = stores, roster_moved

    def wait(self, work: Coroutine[Any, Any, R]) -> R:
        """Run a coroutine to its end and return its result."""
        return asyncio.run(work)

    def put(self, *rows: Entity) -> None:
        """Write rows; a crew assignment also goes to the new roster table if the roster has moved."""

        async def write() -> None:
            for row in rows:
                await self.stores.run(type(row).put(row))
                if isinstance(row, CrewAssignment) and self._roster_moved:
                    duty = to_duty(row)
                    await self.stores.run(type(duty).put(duty))

        asyncio.run(write())

    def assess(self, kind: str, **members: Any) -> Report:
        """Assess a disruption that `make_request` makes from these members."""
        return asyncio.run(assess(self.stores, make_request(kind, **members)))

    def confirm(self, request: DisruptionRequest, choice: Choice) -> tuple[Report, Decision]:
        return asyncio.run(confirm(self.stores, request, choice))

    def dump(self) -> dict[str, list[Any]]:
        """Return every stored item by table name, sorted, to compare states."""
        return asyncio.run(_dump(self.stores))


def make_request(kind: str, **members: Any) -> DisruptionRequest:
    """Make a disruption of flight 1, known the evening before, unless the members say otherwise."""
    named = {} if "flight_number" in members else {"flight_id": "1"}
    return DisruptionRequest.model_validate({"kind": kind, "known_at": EVENING_BEFORE, **named, **members})


@contextmanager
def open_airline(*rows: Entity, roster_moved: bool = True) -> Iterator[Airline]:
    """Open an airline in memory with these rows and close it at the end.

    By default the roster is in its new table, otherwise only in the old one.
    """
    stores = open_memory_stores(SYSTEM)
    try:
        asyncio.run(create_tables(stores, SYSTEM.tables))
        if roster_moved:
            asyncio.run(_run(stores, build_switched_state(EVENING_BEFORE)))
        airline = Airline(stores, roster_moved)
        airline.put(*rows)
        yield airline
    finally:
        asyncio.run(stores.close())


# --- rows ---------------------------------------------------------------------------------------------------


def flight(
    flight_id: str = "1",
    number: str = "EY11",
    route: str = "AUH-LHR",
    departs: datetime = DEPARTS,
    arrives: datetime = ARRIVES,
    tail: str = "A6-BLA",
    **more: Any,
) -> Flight:
    """Make a flight, by default EY11 from AUH to LHR on the test's day. `route` is such as AUH-LHR."""
    origin, _, destination = route.partition("-")
    return Flight(
        flight_id=FlightId(flight_id),
        flight_number=number,
        origin=origin,
        destination=destination,
        scheduled_departure=departs,
        scheduled_arrival=arrives,
        aircraft_registration=tail,
        **{"aircraft_type": "B789", "capacity": 290, **more},
    )


def passenger(passenger_id: str, **more: Any) -> Passenger:
    return Passenger(passenger_id=PassengerId(passenger_id), name=f"NAME/{passenger_id}", **more)


def booking(
    booking_id: str,
    passenger_id: str,
    flight_id: str = "1",
    status: BookingStatus = BookingStatus.CONFIRMED,
    **more: Any,
) -> Booking:
    return Booking(
        booking_id=BookingId(booking_id),
        passenger_id=PassengerId(passenger_id),
        flight_id=FlightId(flight_id),
        booking_status=status,
        **more,
    )


def bag(tag: str, booking_id: str, status: BaggageStatus = BaggageStatus.LOADED, **more: Any) -> Bag:
    return Bag(
        baggage_tag=tag,
        booking_id=BookingId(booking_id),
        baggage_status=status,
        **{"current_location": "AUH", **more},
    )


def crew(
    roster_id: str,
    crew_id: str,
    position: CrewPosition,
    start: datetime,
    end: datetime,
    flight_id: str = "1",
    status: CrewStatus = CrewStatus.ASSIGNED,
) -> CrewAssignment:
    """Make a roster row of a crew member with home base AUH. `start` and `end` are those of the duty."""
    return CrewAssignment(
        roster_id=RosterId(roster_id),
        crew_id=CrewId(crew_id),
        flight_id=FlightId(flight_id),
        position_id=position,
        duty_start=start,
        duty_end=end,
        roster_status=status,
        home_base="AUH",
    )


def cargo(
    assignment_id: str,
    kilograms: str | None,
    *handling: CargoSpecialHandling,
    flight_id: str = "1",
    shipment: str = "S-1",
    status: LoadingStatus = LoadingStatus.PENDING,
    **more: Any,
) -> CargoAssignment:
    """Make a cargo assignment of a weight in kilograms, or without one, with these handling codes."""
    return CargoAssignment(
        assignment_id=AssignmentId(assignment_id),
        shipment_id=ShipmentId(shipment),
        flight_id=FlightId(flight_id),
        loading_status=status,
        weight_on_flight_kg=None if kilograms is None else Decimal(kilograms),
        special_handling=list(handling),
        **more,
    )


def work_order(
    workorder_id: str,
    tail: str = "A6-BLA",
    status: WorkOrderStatus = WorkOrderStatus.OPEN,
    category: MelCategory | None = None,
    **more: Any,
) -> WorkOrder:
    """Make a work order on an aircraft, by default opened the day before."""
    return WorkOrder(
        aircraft_registration=tail,
        workorder_id=WorkOrderId(workorder_id),
        work_status=status,
        mel_category=category,
        **{"opened_on": date(2026, 1, 29), **more},
    )


def shift(
    roster_id: str, staff_id: str, start: datetime, end: datetime, order: str = "WO-1"
) -> MaintenanceShift:
    """Make a shift of a member of staff on a work order."""
    return MaintenanceShift(
        roster_id=RosterId(roster_id),
        staff_id=StaffId(staff_id),
        workorder_id=WorkOrderId(order),
        shift_start_zulu=start,
        shift_end_zulu=end,
    )


async def _run(stores: Stores, operation: Operation[R]) -> R:
    return await stores.run(operation)


async def _dump(stores: Stores) -> dict[str, list[Any]]:
    """Return every stored item by table name, sorted, read by scans past the patterns."""
    found: dict[str, list[Any]] = {}
    for table in SYSTEM.tables:
        request = Scan(stores.physical_name(table))
        items: list[Any] = []
        while True:
            page = await stores.tables.run(request)
            items += page.items or ()
            if page.last_key is None:
                break
            request = Scan(stores.physical_name(table), start_key=page.last_key)
        found[table.name] = sorted(items, key=str)
    return found
