"""What an agent is offered beside the access patterns: questions that take several of them. They only read."""

from __future__ import annotations

from datetime import date, datetime
from typing import Any, Final, Literal

from pydantic import ValidationError

from holdfast import Stores
from holdfast.errors import InvalidRequest
from skymarshal import queries
from skymarshal.disruption import assess
from skymarshal.identifiers import AirportCode, FlightNumber, TailNumber
from skymarshal.impact import DisruptionAsked, Report
from skymarshal.model import FlightId, PassengerId, ShipmentId, WorkOrderId
from skymarshal.statuses import DisruptionKind

PASSENGERS_SHOWN: Final = 20
LINES_SHOWN: Final = 50


async def who_is_hit(
    stores: Stores,
    flight_number: FlightNumber,
    day: date,
    kind: Literal["delay", "cancel", "swap"] = "cancel",
    delay_minutes: int = 0,
    delay_code: str | None = None,
    swap_to: TailNumber | None = None,
    known_at: datetime | None = None,
) -> dict[str, Any]:
    """Who and what is hit if a flight is delayed, cancelled or swapped, what it may cost and what could be done.

    The day is that of departure, UTC. A delay needs delay_minutes, a swap needs swap_to. known_at is when it becomes
    known, with its zone: now, if left out; give it for a flight of the past. Passengers come ranked, the first twenty by
    name; counts are of all. problems tells what the figures lack. Nothing is written.
    """
    try:
        asked = DisruptionAsked(
            kind=DisruptionKind(kind),
            flight_number=flight_number,
            day=day,
            delay_minutes=delay_minutes,
            delay_code=delay_code,
            swap_to=swap_to,
            known_at=known_at,
        )
    except ValidationError as error:
        told = "; ".join(each["msg"] for each in error.errors())
        raise InvalidRequest(f"who_is_hit was called wrongly: {told}.") from error
    return _shortened(await assess(stores, asked))


async def flight_manifest(stores: Stores, flight_id: str, lines_max: int = LINES_SHOWN) -> dict[str, Any]:
    """The confirmed passengers of a flight with their bags; bags are held against what each booking has paid for.

    Counts are of all; the first lines are given, as many as lines_max says.
    """
    await queries.get_flight(stores, FlightId(flight_id))
    lines = await queries.get_flight_manifest(stores, FlightId(flight_id))
    return {
        "passengers": len(lines),
        "bags": sum(line.baggage_count for line in lines),
        "bookings_with_bags_missing": [line.booking_id for line in lines if line.bags_missing],
        "lines": [line.model_dump(mode="json", exclude={"baggage"}) for line in lines[: max(0, lines_max)]],
    }


async def seats(stores: Stores, flight_id: str) -> dict[str, Any]:
    """Seats taken and left on a flight, and how many passengers wait for one."""
    return (await queries.get_seats(stores, FlightId(flight_id))).model_dump(mode="json")


async def flight_crew(stores: Stores, flight_id: str) -> dict[str, Any]:
    """The crew of a flight by position, held against the minimum for its seats."""
    return (await queries.get_crew(stores, FlightId(flight_id))).model_dump(mode="json")


async def cargo_load(stores: Stores, flight_id: str) -> dict[str, Any]:
    """The cargo of a flight: weights, and how far loading is."""
    await queries.get_flight(stores, FlightId(flight_id))
    return (await queries.get_cargo_load(stores, FlightId(flight_id))).model_dump(mode="json")


async def duplicate_bookings(stores: Stores, passenger_id: str) -> dict[str, Any]:
    """The flights that a passenger is booked on twice."""
    found = await queries.get_duplicate_bookings(stores, PassengerId(passenger_id))
    return found.model_dump(mode="json")


async def airport_baggage(stores: Stores, airport: AirportCode) -> dict[str, int]:
    """How many bags an airport has, by status."""
    return await queries.get_airport_baggage_summary(stores, airport)


async def shipment_status(stores: Stores, shipment_id: str) -> dict[str, Any]:
    """A shipment's route over its flights and whether it has been delivered."""
    return (await queries.get_shipment(stores, ShipmentId(shipment_id))).model_dump(mode="json")


async def staffing(stores: Stores, workorder_id: str, at: datetime | None = None) -> dict[str, Any]:
    """The staff of a work order by shift, the most that are there at once, and who is there at a moment (UTC)."""
    return (await queries.get_staffing(stores, WorkOrderId(workorder_id), at)).model_dump(mode="json")


TOOLS = (
    who_is_hit,
    flight_manifest,
    seats,
    flight_crew,
    cargo_load,
    duplicate_bookings,
    airport_baggage,
    shipment_status,
    staffing,
)


def _shortened(report: Report) -> dict[str, Any]:
    """The report without its longest lists: an agent reads every word."""
    told = report.model_dump(mode="json")
    told["passengers"]["ranked"] = told["passengers"]["ranked"][:PASSENGERS_SHOWN]
    told["bags"]["to_reroute"] = len(told["bags"]["to_reroute"])
    told["cargo"]["assignments"] = told["cargo"]["assignments"][:PASSENGERS_SHOWN]
    return told
