"""What an agent is offered beside the access patterns: questions that take several of them. They only read."""

from __future__ import annotations

from datetime import date
from typing import Any, Literal

from holdfast import Stores
from skymarshal import queries
from skymarshal.disruption import assess
from skymarshal.impact import DisruptionAsked, Report
from skymarshal.model import FlightId, ShipmentId
from skymarshal.statuses import DisruptionKind

PASSENGERS_SHOWN = 20


async def who_is_hit(
    stores: Stores,
    flight_number: str,
    day: date,
    kind: Literal["delay", "cancel", "swap"] = "cancel",
    delay_minutes: int = 0,
    delay_code: str | None = None,
    swap_to: str | None = None,
) -> dict[str, Any]:
    """Who and what is hit if a flight is delayed, cancelled or swapped, what it may cost and what could be done.

    Passengers come ranked, the first twenty by name; counts are of all. Nothing is written.
    """
    asked = DisruptionAsked(
        kind=DisruptionKind(kind),
        flight_number=flight_number,
        day=day.isoformat(),
        delay_minutes=delay_minutes,
        delay_code=delay_code,
        swap_to=swap_to,
    )
    return _shortened(await assess(stores, asked))


async def flight_manifest(stores: Stores, flight_id: str) -> dict[str, Any]:
    """The confirmed passengers of a flight with their bags; bags are held against what each booking has paid for."""
    lines = await queries.get_flight_manifest(stores, FlightId(flight_id))
    return {
        "passengers": len(lines),
        "bags": sum(line.baggage_count for line in lines),
        "bookings_with_bags_missing": [line.booking_id for line in lines if line.bags_missing],
        "lines": [line.model_dump(mode="json", exclude={"baggage"}) for line in lines],
    }


async def seats(stores: Stores, flight_id: str) -> dict[str, Any]:
    """Seats taken and left on a flight, and how many passengers wait for one."""
    return (await queries.get_seats(stores, FlightId(flight_id))).model_dump(mode="json")


async def airport_baggage(stores: Stores, airport: str) -> dict[str, int]:
    """How many bags an airport has, by status."""
    return await queries.get_airport_baggage_summary(stores, airport)


async def shipment_status(stores: Stores, shipment_id: str) -> dict[str, Any]:
    """A shipment's route over its flights and whether it has been delivered."""
    return (await queries.get_shipment(stores, ShipmentId(shipment_id))).model_dump(mode="json")


TOOLS = (who_is_hit, flight_manifest, seats, airport_baggage, shipment_status)


def _shortened(report: Report) -> dict[str, Any]:
    """The report without its longest lists: an agent reads every word."""
    told = report.model_dump(mode="json")
    told["passengers"]["ranked"] = told["passengers"]["ranked"][:PASSENGERS_SHOWN]
    told["bags"]["to_reroute"] = len(told["bags"]["to_reroute"])
    told["cargo"]["assignments"] = told["cargo"]["assignments"][:PASSENGERS_SHOWN]
    return told
