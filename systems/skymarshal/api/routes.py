"""The HTTP routes of SkyMarshal: GET routes for the queries, and `POST /disruptions` to assess or decide.

Errors are problem+json. Nothing is written unless a disruption is confirmed. The routes run as the component
`api`.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict

from holdfast import Stores
from holdfast.core.errors import InvalidRequest
from holdfast.web import PageOf, RequestedPage, describe_problem
from skymarshal.disruptions.assessment import assess
from skymarshal.disruptions.decision import Choice, Decision, confirm
from skymarshal.disruptions.report import DisruptionRequest, Report
from skymarshal.domain.identifiers import AirportCode, Day, FlightNumber, Moment
from skymarshal.domain.statuses import BookingStatus, CrewPosition
from skymarshal.model import patterns, queries
from skymarshal.model.entities import (
    Booking,
    BookingId,
    DisruptedPassenger,
    Flight,
    FlightId,
    Passenger,
    PassengerId,
    ShipmentId,
    WorkOrderId,
)

NOT_FOUND: dict[int | str, dict[str, Any]] = {404: describe_problem("The resource does not exist.")}
MAX_PASSENGERS = 500
MAX_STAFF = 10_000


class DisruptionPosted(DisruptionRequest):
    """A disruption to assess. With `confirm`, the chosen option is also written."""

    confirm: Choice | None = None


class DisruptionAnswered(BaseModel):
    """The report, and the decision if one was confirmed. Without `confirm`, nothing was written."""

    model_config = ConfigDict(frozen=True)

    report: Report
    decision: Decision | None = None


def build_routes(stores: Stores) -> list[APIRouter]:
    """Return the API's routers: disruptions, flights, passengers, airport baggage, cargo and maintenance."""
    return [
        _build_disruption_routes(stores),
        _build_flight_routes(stores),
        _build_passenger_routes(stores),
        _build_airport_routes(stores),
        _build_ground_routes(stores),
    ]


def _build_disruption_routes(stores: Stores) -> APIRouter:
    """Build the routes that assess or confirm a disruption and list the disruptions of a passenger."""
    router = APIRouter(tags=["disruptions"])
    changed = describe_problem(
        "The flight has changed since the assessment, or the `disruption_id` belongs to another decision."
    )

    @router.post(
        "/disruptions",
        summary="Assess a disruption: its impact and the recovery options",
        responses={**NOT_FOUND, 409: changed},
    )
    async def post_disruption(posted: DisruptionPosted) -> DisruptionAnswered:
        """Return the report; with `confirm`, also write the chosen option and return the decision."""
        if posted.confirm is None:
            return DisruptionAnswered(report=await assess(stores, posted))
        report, decision = await confirm(stores, posted, posted.confirm)
        return DisruptionAnswered(report=report, decision=decision)

    @router.get(
        "/passengers/{passenger_id}/disruptions", summary="List the disruptions that affected a passenger"
    )
    async def disruptions_of_passenger(
        passenger_id: PassengerId, paging: RequestedPage
    ) -> PageOf[DisruptedPassenger]:
        page = await stores.run(
            patterns.disruptions_of_passenger(passenger_id).page(paging.limit, paging.cursor)
        )
        return PageOf(items=list(page), cursor=page.cursor)

    return router


def _build_flight_routes(stores: Stores) -> APIRouter:
    """Build the routes below `/flights`: the flight, its manifest, seats, waitlist, crew and cargo."""
    router = APIRouter(prefix="/flights", tags=["flights"], responses=NOT_FOUND)

    several = describe_problem("Several flights of that number depart on that day. Get one by its id.")

    @router.get("", summary="Get a flight by number and day (UTC)", responses={409: several})
    async def flight_numbered(number: FlightNumber, day: Day) -> Flight:
        """Return the flight that departs on that day. A cancelled one is ignored if another exists."""
        return await queries.find_flight(stores, number, day)

    @router.get("/{flight_id}", summary="Get a flight")
    async def flight(flight_id: FlightId) -> Flight:
        return await queries.get_flight(stores, flight_id)

    @router.get("/{flight_id}/manifest", summary="List a flight's passengers with their bags")
    async def manifest(
        flight_id: FlightId, status: BookingStatus = BookingStatus.CONFIRMED
    ) -> list[queries.ManifestLine]:
        """Return a line per booking with this status, by default confirmed, with its bags."""
        await queries.get_flight(stores, flight_id)
        return await queries.get_flight_manifest(stores, flight_id, status)

    @router.get("/{flight_id}/seats", summary="Count a flight's seats taken and left, and its waitlist")
    async def seats(flight_id: FlightId) -> queries.Seats:
        return await queries.get_seats(stores, flight_id)

    @router.get("/{flight_id}/waitlist", summary="List a flight's waitlisted bookings")
    async def waitlist(flight_id: FlightId) -> list[Booking]:
        await queries.get_flight(stores, flight_id)
        return await queries.get_waitlist(stores, flight_id)

    @router.get("/{flight_id}/crew", summary="List a flight's crew, compared with the minimum")
    async def crew(flight_id: FlightId) -> queries.CrewOfFlight:
        return await queries.get_crew(stores, flight_id)

    @router.get("/{flight_id}/crew/{position}", summary="List a flight's crew in one position")
    async def crew_in_position(flight_id: FlightId, position: CrewPosition) -> list[queries.CrewMember]:
        """Return the roster rows in this position, whatever their status."""
        await queries.get_flight(stores, flight_id)
        return await queries.get_crew_in_position(stores, flight_id, position)

    @router.get("/{flight_id}/cargo", summary="Get a flight's cargo, weights and loading progress")
    async def cargo(flight_id: FlightId) -> queries.CargoLoad:
        await queries.get_flight(stores, flight_id)
        return await queries.get_cargo_load(stores, flight_id)

    return router


def _build_passenger_routes(stores: Stores) -> APIRouter:
    """Build the routes for passengers by id, their bookings and duplicates, and the bags of a booking."""
    router = APIRouter(tags=["passengers"], responses=NOT_FOUND)

    @router.get("/passengers", summary="Get passengers by id")
    async def passengers(id: Annotated[list[PassengerId], Query()]) -> list[Passenger]:
        """Return the passengers with these ids, at most 500. Unknown ids are left out."""
        if len(id) > MAX_PASSENGERS:
            raise InvalidRequest(f"Invalid id: {len(id)} passenger ids, expected at most {MAX_PASSENGERS}.")
        return await queries.get_passengers(stores, id)

    @router.get("/passengers/{passenger_id}/bookings", summary="List a passenger's bookings")
    async def bookings(passenger_id: PassengerId, paging: RequestedPage) -> PageOf[Booking]:
        page = await stores.run(
            patterns.bookings_of_passenger(passenger_id).page(paging.limit, paging.cursor)
        )
        return PageOf(items=list(page), cursor=page.cursor)

    @router.get(
        "/passengers/{passenger_id}/duplicates",
        summary="List the flights that a passenger is booked on twice",
    )
    async def duplicates(passenger_id: PassengerId) -> queries.Duplicates:
        """Return the flights with two or more bookings of the passenger that are not cancelled."""
        return await queries.get_duplicate_bookings(stores, passenger_id)

    @router.get(
        "/bookings/{booking_id}/baggage", summary="Get a booking's bags, compared with those paid for"
    )
    async def baggage(booking_id: BookingId) -> queries.ManifestLine:
        return await queries.get_bags_of_booking(stores, booking_id)

    return router


def _build_airport_routes(stores: Stores) -> APIRouter:
    """Build the routes for the bags at an airport: their number by status, and the mishandled ones."""
    router = APIRouter(prefix="/airports/{airport}/baggage", tags=["baggage"], responses=NOT_FOUND)

    @router.get("", summary="Count the bags at an airport, by status")
    async def summary(airport: AirportCode) -> dict[str, int]:
        return await queries.get_airport_baggage_summary(stores, airport)

    @router.get("/mishandled", summary="List the mishandled bags at an airport")
    async def mishandled(airport: AirportCode) -> list[queries.MishandledBag]:
        return await queries.get_mishandled_bags(stores, airport)

    return router


def _build_ground_routes(stores: Stores) -> APIRouter:
    """Build the routes for one shipment and for the staff of one work order."""
    router = APIRouter(tags=["cargo and maintenance"], responses=NOT_FOUND)

    @router.get("/shipments/{shipment_id}", summary="Get a shipment's route and delivery status")
    async def shipment(shipment_id: ShipmentId) -> queries.Shipment:
        return await queries.get_shipment(stores, shipment_id)

    @router.get(
        "/work-orders/{workorder_id}/staff",
        summary="Get a work order's staff by shift, and its staffing level",
    )
    async def staff(
        workorder_id: WorkOrderId,
        at: Moment | None = None,
        required: Annotated[int | None, Query(ge=0, le=MAX_STAFF)] = None,
    ) -> queries.Staffing:
        """Return the shifts and the peak; with `at`, also compare the staff present then with `required`."""
        return await queries.get_staffing(stores, workorder_id, at, required)

    return router
