"""The agent's MCP tools: read-only functions over the queries and the disruption assessment.

They come in addition to the access patterns that an agent may call directly. The name of a function is the
name of its tool, its docstring the description that the agent reads.
"""

from __future__ import annotations

from datetime import date, datetime
from typing import Any, Final, Literal

from pydantic import BaseModel, ValidationError

from holdfast import Stores
from holdfast.core.errors import Conflict, HoldfastError, InvalidRequest, NotFound
from holdfast.model.agents import ToolFunction
from skymarshal.disruptions.assessment import assess
from skymarshal.disruptions.report import DisruptionRequest, Report
from skymarshal.domain.identifiers import AirportCode, FlightNumber, TailNumber
from skymarshal.domain.statuses import DisruptionKind
from skymarshal.model import queries
from skymarshal.model.entities import FlightId, PassengerId, ShipmentId, WorkOrderId

MAX_PASSENGERS_SHOWN: Final = 20
DEFAULT_LINES_SHOWN: Final = 50


class Assessment(BaseModel):
    """The report on a disruption, shortened for an agent's context."""

    kind: str
    delay_minutes: int
    delay_code: str | None
    known_at: str
    problems: list[str]
    flight: dict[str, Any]
    passengers: dict[str, Any]
    bags: dict[str, Any]
    crew: dict[str, Any]
    cargo: dict[str, Any]
    maintenance: dict[str, Any]
    rotation: dict[str, Any]
    compensation: dict[str, Any]
    options: dict[str, Any]
    requests: int
    items_read: int
    read_units: float


async def who_is_hit(
    stores: Stores,
    flight_number: FlightNumber,
    day: date,
    kind: Literal["delay", "cancel", "swap"] = "cancel",
    delay_minutes: int = 0,
    delay_code: str | None = None,
    swap_to: TailNumber | None = None,
    known_at: datetime | None = None,
) -> Assessment:
    """Assess a flight disruption: who and what it affects, possible claims and recovery options.

    A delay needs `delay_minutes`, a swap needs `swap_to`. Passengers are ranked and the first twenty are
    listed; counts cover all. `problems` lists the gaps in the figures. Nothing is written.
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


class Manifest(BaseModel):
    """The passengers of a flight with their bags."""

    passengers: int
    bags: int
    bookings_with_bags_missing: list[str]
    lines: list[dict[str, Any]]


async def flight_manifest(stores: Stores, flight_id: str, lines_max: int = DEFAULT_LINES_SHOWN) -> Manifest:
    """Return the confirmed passengers of a flight with their bags, compared with the number of bags paid for.

    Counts cover all passengers; the first `lines_max` lines are listed.
    """
    await queries.get_flight(stores, FlightId(flight_id))
    lines = await queries.get_flight_manifest(stores, FlightId(flight_id))
    return Manifest(
        passengers=len(lines),
        bags=sum(line.baggage_count for line in lines),
        bookings_with_bags_missing=[line.booking_id for line in lines if line.bags_missing],
        lines=[line.model_dump(mode="json", exclude={"baggage"}) for line in lines[: max(0, lines_max)]],
    )


async def seats(stores: Stores, flight_id: str) -> queries.Seats:
    """Return the seats taken and left on a flight, and the number of waitlisted passengers."""
    return await queries.get_seats(stores, FlightId(flight_id))


async def flight_crew(stores: Stores, flight_id: str) -> queries.CrewOfFlight:
    """Return the crew of a flight by position, compared with the minimum for its seats."""
    return await queries.get_crew(stores, FlightId(flight_id))


async def cargo_load(stores: Stores, flight_id: str) -> queries.CargoLoad:
    """Return the cargo of a flight: weights and loading progress."""
    await queries.get_flight(stores, FlightId(flight_id))
    return await queries.get_cargo_load(stores, FlightId(flight_id))


async def duplicate_bookings(stores: Stores, passenger_id: str) -> queries.Duplicates:
    """Return the flights that a passenger is booked on twice."""
    return await queries.get_duplicate_bookings(stores, PassengerId(passenger_id))


async def airport_baggage(stores: Stores, airport: AirportCode) -> dict[str, int]:
    """Return the number of bags at an airport, by status."""
    return await queries.get_airport_baggage_summary(stores, airport)


async def shipment_status(stores: Stores, shipment_id: str) -> queries.Shipment:
    """Return a shipment's route over its flights and its delivery status."""
    return await queries.get_shipment(stores, ShipmentId(shipment_id))


async def staffing(stores: Stores, workorder_id: str, at: datetime | None = None) -> queries.Staffing:
    """Return the staff of a work order by shift, and the peak number present.

    With `at`, also return the number present at that moment.
    """
    return await queries.get_staffing(stores, WorkOrderId(workorder_id), at)


ARGUMENTS: Final = {
    "flight_number": "The airline's two letters and the number of the flight",
    "day": "The day of departure in UTC, as YYYY-MM-DD",
    "kind": "What happens to the flight: it is delayed, cancelled, or flown by another aircraft",
    "delay_minutes": "How late the flight departs, in minutes; for a delay",
    "delay_code": "The IATA delay code, if it is known; it decides about compensation",
    "swap_to": "The registration of the other aircraft; for a swap",
    "what_happened": "What happened to the flight, in your words",
    "known_at": "When the disruption became known, with a time zone; now if omitted",
    "flight_id": "The id of a flight; flights_numbered finds it by number and day",
    "lines_max": "The maximum number of passengers to list",
    "passenger_id": "The id of a passenger, as bookings have it",
    "booking_id": "The id of a booking",
    "baggage_tag": "The ten digits on the tag of a bag",
    "airport": "The IATA code of three letters, or the ICAO code of four",
    "location": "The IATA code of the airport where the bags are",
    "status": "The status that the bookings or bags have",
    "registration": "The registration of an aircraft",
    "since": "The start of the time range, with a time zone",
    "until": "The end of the time range, with a time zone",
    "shipment_id": "The number of a shipment",
    "workorder_id": "The number of a work order",
    "at": "A moment, with a time zone",
    "disruption_id": "The id of a decision on a disruption",
}

_FLIGHT: Final = {"flight_id": "1"}
_NO_FLIGHT: Final[dict[type[HoldfastError], str]] = {NotFound: "no flight has this id"}

TOOLS: Final = (
    ToolFunction(
        who_is_hit,
        example={"flight_number": "EY11", "day": "2026-01-30"},
        errors={
            NotFound: "no such flight departs on that day",
            Conflict: "several such flights depart on that day",
        },
    ),
    ToolFunction(flight_manifest, example=_FLIGHT, errors=_NO_FLIGHT),
    ToolFunction(seats, example=_FLIGHT, errors=_NO_FLIGHT),
    ToolFunction(flight_crew, example=_FLIGHT, errors=_NO_FLIGHT),
    ToolFunction(cargo_load, example={"flight_id": "5"}, errors=_NO_FLIGHT),
    ToolFunction(duplicate_bookings, example={"passenger_id": "OZ69826352P"}),
    ToolFunction(airport_baggage, example={"airport": "AUH"}, errors={NotFound: "the airport is unknown"}),
    ToolFunction(
        shipment_status, example={"shipment_id": "42"}, errors={NotFound: "no flight carries the shipment"}
    ),
    ToolFunction(
        staffing,
        example={"workorder_id": "WO-10193", "at": "2026-01-29T22:00:00Z"},
        errors={NotFound: "no staff is rostered on the work order"},
    ),
)


def _shorten_report(report: Report) -> Assessment:
    """Return the report as JSON, shortened for an agent's context.

    At most twenty passengers and twenty cargo assignments are listed, and the bags to re-route are only
    counted.
    """
    result = report.model_dump(mode="json")
    result["passengers"]["ranked"] = result["passengers"]["ranked"][:MAX_PASSENGERS_SHOWN]
    result["bags"]["to_reroute"] = len(result["bags"]["to_reroute"])
    result["cargo"]["assignments"] = result["cargo"]["assignments"][:MAX_PASSENGERS_SHOWN]
    return Assessment.model_validate(result)
