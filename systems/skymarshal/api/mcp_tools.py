"""The agent's MCP tools: read-only functions over the queries and the disruption assessment.

They come in addition to the access patterns that an agent may call directly. The name of a function is the
name of its tool, its docstring the description that the agent reads.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Any, Final, Literal

from pydantic import ValidationError

from holdfast import Stores
from holdfast.core.errors import InvalidRequest
from skymarshal.disruptions.assessment import assess
from skymarshal.disruptions.report import DisruptionRequest, Report
from skymarshal.domain.identifiers import AirportCode, FlightNumber, TailNumber
from skymarshal.domain.statuses import DisruptionKind
from skymarshal.model import queries
from skymarshal.model.entities import FlightId, PassengerId, ShipmentId, WorkOrderId

MAX_PASSENGERS_SHOWN: Final = 20
DEFAULT_LINES_SHOWN: Final = 50


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
    """Assess a flight disruption: who and what it affects, possible claims and recovery options.

    kind is delay, cancel or swap. day is the day of departure, UTC. A delay needs delay_minutes, a swap needs
    swap_to. known_at is when the disruption became known, with a time zone; default: now; give it for a past
    flight. Passengers are ranked and the first twenty are listed; counts cover all. problems lists the gaps
    in the figures. Nothing is written.
    """
    try:
        request = DisruptionRequest(
            kind=DisruptionKind(kind),
            flight_number=flight_number,
            day=day,
            delay_minutes=delay_minutes,
            delay_code=delay_code,
            swap_to=swap_to,
            known_at=known_at,
        )
    except ValidationError as error:
        reasons = "; ".join(each["msg"].removeprefix("Value error, ") for each in error.errors())
        raise InvalidRequest(f"Invalid arguments of who_is_hit: {reasons}.") from error
    return _shorten_report(await assess(stores, request))


async def flight_manifest(
    stores: Stores, flight_id: str, lines_max: int = DEFAULT_LINES_SHOWN
) -> dict[str, Any]:
    """Return the confirmed passengers of a flight with their bags, compared with the number of bags paid for.

    Counts cover all passengers; the first lines_max lines are listed.
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
    """Return the seats taken and left on a flight, and the number of waitlisted passengers."""
    return (await queries.get_seats(stores, FlightId(flight_id))).model_dump(mode="json")


async def flight_crew(stores: Stores, flight_id: str) -> dict[str, Any]:
    """Return the crew of a flight by position, compared with the minimum for its seats."""
    return (await queries.get_crew(stores, FlightId(flight_id))).model_dump(mode="json")


async def cargo_load(stores: Stores, flight_id: str) -> dict[str, Any]:
    """Return the cargo of a flight: weights and loading progress."""
    await queries.get_flight(stores, FlightId(flight_id))
    return (await queries.get_cargo_load(stores, FlightId(flight_id))).model_dump(mode="json")


async def duplicate_bookings(stores: Stores, passenger_id: str) -> dict[str, Any]:
    """Return the flights that a passenger is booked on twice."""
    found = await queries.get_duplicate_bookings(stores, PassengerId(passenger_id))
    return found.model_dump(mode="json")


async def airport_baggage(stores: Stores, airport: AirportCode) -> dict[str, int]:
    """Return the number of bags at an airport, by status."""
    return await queries.get_airport_baggage_summary(stores, airport)


async def shipment_status(stores: Stores, shipment_id: str) -> dict[str, Any]:
    """Return a shipment's route over its flights and its delivery status."""
    return (await queries.get_shipment(stores, ShipmentId(shipment_id))).model_dump(mode="json")


async def staffing(stores: Stores, workorder_id: str, at: datetime | None = None) -> dict[str, Any]:
    """Return the staff of a work order by shift, and the peak number present.

    With at (UTC), also return the number present at that moment.
    """
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


def _shorten_report(report: Report) -> dict[str, Any]:
    """Return the report as JSON, shortened for an agent's context.

    At most twenty passengers and twenty cargo assignments are listed, and the bags to re-route are only
    counted.
    """
    result = report.model_dump(mode="json")
    result["passengers"]["ranked"] = result["passengers"]["ranked"][:MAX_PASSENGERS_SHOWN]
    result["bags"]["to_reroute"] = len(result["bags"]["to_reroute"])
    result["cargo"]["assignments"] = result["cargo"]["assignments"][:MAX_PASSENGERS_SHOWN]
    return result
