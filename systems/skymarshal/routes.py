"""SkyMarshal over HTTP: every question, and `POST /disruptions`.

Errors are problem+json; nothing is written unless a disruption is confirmed. It runs as the component `api`.
"""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict

from holdfast import Stores
from holdfast.errors import InvalidRequest
from holdfast.web import PageAsked, PageOf, problem_response
from skymarshal import patterns, queries
from skymarshal.decision import Choice, Decision, confirm
from skymarshal.disruption import assess
from skymarshal.identifiers import AirportCode, Day, FlightNumber, Moment
from skymarshal.impact import DisruptionAsked, Report
from skymarshal.model import (
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
from skymarshal.statuses import BookingStatus, CrewPosition

NOT_THERE: dict[int | str, dict[str, Any]] = {404: problem_response("There is no such thing.")}
PASSENGERS_MAX = 500


class DisruptionPosted(DisruptionAsked):
    """A disruption to assess; with `confirm`, one whose chosen option is written."""

    confirm: Choice | None = None


class DisruptionAnswered(BaseModel):
    """The report, and what was written: nothing, unless it was confirmed."""

    model_config = ConfigDict(frozen=True)

    report: Report
    decision: Decision | None = None


def routes(stores: Stores) -> list[APIRouter]:
    return [_disruptions(stores), _flights(stores), _passengers(stores), _airports(stores), _ground(stores)]


def _disruptions(stores: Stores) -> APIRouter:
    router = APIRouter(tags=["disruptions"])
    changed = problem_response("The flight was changed since, or the id was used for another decision.")

    @router.post(
        "/disruptions",
        summary="Who and what is hit, and what could be done",
        responses={**NOT_THERE, 409: changed},
    )
    async def post_disruption(posted: DisruptionPosted) -> DisruptionAnswered:
        if posted.confirm is None:
            return DisruptionAnswered(report=await assess(stores, posted))
        report, decision = await confirm(stores, posted, posted.confirm)
        return DisruptionAnswered(report=report, decision=decision)

    @router.get("/passengers/{passenger_id}/disruptions", summary="The disruptions that hit a passenger")
    async def disruptions_of_passenger(
        passenger_id: PassengerId, paging: PageAsked
    ) -> PageOf[DisruptedPassenger]:
        page = await stores.run(
            patterns.disruptions_of_passenger(passenger_id).page(paging.limit, paging.cursor)
        )
        return PageOf(items=list(page), cursor=page.cursor)

    return router


def _flights(stores: Stores) -> APIRouter:
    router = APIRouter(prefix="/flights", tags=["flights"], responses=NOT_THERE)

    several = problem_response("Several flights of that number depart on that day: name one by its id.")

    @router.get("", summary="A flight by number and day (UTC)", responses={409: several})
    async def flight_numbered(number: FlightNumber, day: Day) -> Flight:
        return await queries.find_flight(stores, number, day)

    @router.get("/{flight_id}", summary="A flight")
    async def flight(flight_id: FlightId) -> Flight:
        return await queries.get_flight(stores, flight_id)

    @router.get("/{flight_id}/manifest", summary="Confirmed passengers with their bags")
    async def manifest(
        flight_id: FlightId, status: BookingStatus = BookingStatus.CONFIRMED
    ) -> list[queries.ManifestLine]:
        await queries.get_flight(stores, flight_id)
        return await queries.get_flight_manifest(stores, flight_id, status)

    @router.get("/{flight_id}/seats", summary="Seats taken, seats left, how many wait")
    async def seats(flight_id: FlightId) -> queries.Seats:
        return await queries.get_seats(stores, flight_id)

    @router.get("/{flight_id}/waitlist", summary="Who waits for a seat")
    async def waitlist(flight_id: FlightId) -> list[Booking]:
        await queries.get_flight(stores, flight_id)
        return await queries.get_waitlist(stores, flight_id)

    @router.get("/{flight_id}/crew", summary="The crew, held against the minimum")
    async def crew(flight_id: FlightId) -> queries.CrewOfFlight:
        return await queries.get_crew(stores, flight_id)

    @router.get("/{flight_id}/crew/{position}", summary="The crew in one position")
    async def crew_in_position(flight_id: FlightId, position: CrewPosition) -> list[queries.CrewMember]:
        await queries.get_flight(stores, flight_id)
        return await queries.get_crew_in_position(stores, flight_id, position)

    @router.get("/{flight_id}/cargo", summary="Cargo, weights and how far loading is")
    async def cargo(flight_id: FlightId) -> queries.CargoLoad:
        await queries.get_flight(stores, flight_id)
        return await queries.get_cargo_load(stores, flight_id)

    return router


def _passengers(stores: Stores) -> APIRouter:
    router = APIRouter(tags=["passengers"], responses=NOT_THERE)

    @router.get("/passengers", summary="Many passengers at once")
    async def passengers(id: Annotated[list[PassengerId], Query()]) -> list[Passenger]:
        if len(id) > PASSENGERS_MAX:
            raise InvalidRequest(f"{len(id)} passengers were asked for: ask for {PASSENGERS_MAX} at most.")
        return await queries.get_passengers(stores, id)

    @router.get("/passengers/{passenger_id}/bookings", summary="A passenger's bookings")
    async def bookings(passenger_id: PassengerId, paging: PageAsked) -> PageOf[Booking]:
        page = await stores.run(
            patterns.bookings_of_passenger(passenger_id).page(paging.limit, paging.cursor)
        )
        return PageOf(items=list(page), cursor=page.cursor)

    @router.get("/passengers/{passenger_id}/duplicates", summary="Flights a passenger is booked on twice")
    async def duplicates(passenger_id: PassengerId) -> queries.Duplicates:
        return await queries.get_duplicate_bookings(stores, passenger_id)

    @router.get("/bookings/{booking_id}/baggage", summary="A booking's bags, held against what it paid for")
    async def baggage(booking_id: BookingId) -> queries.ManifestLine:
        return await queries.get_bags_of_booking(stores, booking_id)

    return router


def _airports(stores: Stores) -> APIRouter:
    router = APIRouter(prefix="/airports/{airport}/baggage", tags=["baggage"], responses=NOT_THERE)

    @router.get("", summary="How many bags an airport has, by status")
    async def summary(airport: AirportCode) -> dict[str, int]:
        return await queries.get_airport_baggage_summary(stores, airport)

    @router.get("/mishandled", summary="Bags that need attention now")
    async def mishandled(airport: AirportCode) -> list[queries.MishandledBag]:
        return await queries.get_mishandled_bags(stores, airport)

    return router


def _ground(stores: Stores) -> APIRouter:
    router = APIRouter(tags=["cargo and maintenance"], responses=NOT_THERE)

    @router.get("/shipments/{shipment_id}", summary="A shipment's route and where it stands")
    async def shipment(shipment_id: ShipmentId) -> queries.Shipment:
        return await queries.get_shipment(stores, shipment_id)

    @router.get("/work-orders/{workorder_id}/staff", summary="Staff by shift, and the staffing level")
    async def staff(
        workorder_id: WorkOrderId,
        at: Moment | None = None,
        required: Annotated[int | None, Query(ge=0)] = None,
    ) -> queries.Staffing:
        return await queries.get_staffing(stores, workorder_id, at, required)

    return router
