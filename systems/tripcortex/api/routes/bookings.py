"""Booking routes: request, follow, answer and cancel for the owner; list and decide for the approver."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from tripcortex.api.identity import Employee
from tripcortex.api.routes.auth import Gate
from tripcortex.api.routes.openapi import BOOKING_ID, CURSOR, LIMIT, describe
from tripcortex.api.routes.request_params import parse_cursor, parse_json, parse_limit
from tripcortex.api.routes.schemas import (
    AnswerAsked,
    Approvals,
    ApprovalView,
    AuditPage,
    BookingPage,
    BookingView,
    CancelAsked,
    ChoiceAsked,
    DecidedView,
    DecisionAsked,
    TripAsked,
    build_approval_view,
    build_audit_view,
    build_booking_view,
    build_decided_view,
    build_response,
)
from tripcortex.model import patterns
from tripcortex.model.entities import Booking


def build_booking_routes(gate: Gate) -> APIRouter:
    """Return the routes that request a trip and read bookings and their audit entries."""
    router = APIRouter(tags=["bookings"])
    stores, trips = gate.stores, gate.trips

    @router.post(
        "/bookings",
        **describe(
            "requestTrip",
            "Request a trip",
            request_body=TripAsked,
            response=BookingView,
            status=202,
            descriptions={202: "The request is accepted. Read the booking to follow its progress."},
        ),
    )
    @gate.authenticated()
    async def request_trip(request: Request, employee: Employee) -> Response:
        body = await parse_json(request, TripAsked)
        booking = await trips.request(employee, body.text)
        return build_response(
            _build_view(gate, booking), 202, {"location": f"/bookings/{booking.booking_id}"}
        )

    @router.get(
        "/bookings",
        **describe(
            "listBookings",
            "List the caller's bookings, newest first",
            parameters=[LIMIT, CURSOR],
            response=BookingPage,
        ),
    )
    @gate.authenticated()
    async def history(request: Request, employee: Employee) -> Response:
        page = await stores.run(
            patterns.history(employee.employee_id, parse_limit(request), parse_cursor(request))
        )
        items = [_build_view(gate, each) for each in page.items]
        return build_response(BookingPage(items=items, cursor=page.cursor))

    @router.get(
        "/bookings/{booking_id}",
        **describe("getBooking", "Get a booking", parameters=[BOOKING_ID], response=BookingView),
    )
    @gate.authenticated()
    async def one(request: Request, employee: Employee) -> Response:
        return build_response(
            _build_view(gate, await trips.get_booking(employee, request.path_params["booking_id"]))
        )

    @router.get(
        "/bookings/{booking_id}/audit",
        **describe(
            "getBookingAudit",
            "List a booking's audit entries, oldest first",
            parameters=[BOOKING_ID, LIMIT, CURSOR],
            response=AuditPage,
        ),
    )
    @gate.authenticated()
    async def trail(request: Request, employee: Employee) -> Response:
        booking = await trips.get_booking(employee, request.path_params["booking_id"])
        page = await stores.run(
            patterns.trail(booking.booking_id, parse_limit(request), parse_cursor(request))
        )
        return build_response(
            AuditPage(items=[build_audit_view(each) for each in page.items], cursor=page.cursor)
        )

    return router


def build_decision_routes(gate: Gate) -> APIRouter:
    """Return the routes that answer what a booking waits for (choice, answer, approval), and cancel it."""
    router = APIRouter(tags=["bookings"])
    trips = gate.trips

    @router.post(
        "/bookings/{booking_id}/choice",
        **describe(
            "chooseOption",
            "Choose one of the options",
            parameters=[BOOKING_ID],
            request_body=ChoiceAsked,
            response=BookingView,
        ),
    )
    @gate.authenticated()
    async def choose(request: Request, employee: Employee) -> Response:
        body = await parse_json(request, ChoiceAsked)
        booking_id = request.path_params["booking_id"]
        return build_response(
            _build_view(gate, await trips.choose(employee, booking_id, body.option_id, body.token))
        )

    @router.post(
        "/bookings/{booking_id}/answer",
        **describe(
            "answerQuestion",
            "Answer the planner's question",
            parameters=[BOOKING_ID],
            request_body=AnswerAsked,
            response=BookingView,
        ),
    )
    @gate.authenticated()
    async def answer(request: Request, employee: Employee) -> Response:
        body = await parse_json(request, AnswerAsked)
        booking_id = request.path_params["booking_id"]
        return build_response(
            _build_view(gate, await trips.answer(employee, booking_id, body.text, body.token))
        )

    @router.post(
        "/bookings/{booking_id}/cancel",
        **describe(
            "cancelBooking",
            "Cancel a booking before anything is bought",
            parameters=[BOOKING_ID],
            request_body=CancelAsked,
            response=BookingView,
        ),
    )
    @gate.authenticated()
    async def cancel(request: Request, employee: Employee) -> Response:
        body = await parse_json(request, CancelAsked)
        booking_id = request.path_params["booking_id"]
        return build_response(_build_view(gate, await trips.cancel(employee, booking_id, body.reason)))

    @router.post(
        "/bookings/{booking_id}/approval",
        **describe(
            "decideBooking",
            "Approve or refuse a breach of the policy, as the assigned approver",
            parameters=[BOOKING_ID],
            request_body=DecisionAsked,
            response=DecidedView,
        ),
    )
    @gate.authenticated()
    async def decide(request: Request, employee: Employee) -> Response:
        body = await parse_json(request, DecisionAsked)
        booking = await trips.decide(
            employee,
            body.employee_id,
            request.path_params["booking_id"],
            body.decision,
            token=body.token,
            reason=body.reason,
        )
        return build_response(build_decided_view(booking))

    return router


def build_approval_routes(gate: Gate) -> APIRouter:
    """Return the routes that list and read the approvals that wait for the caller."""
    router = APIRouter(tags=["approvals"])
    trips = gate.trips

    @router.get(
        "/approvals",
        **describe(
            "listApprovals",
            "List the approvals that wait for the caller's decision, oldest first",
            response=Approvals,
        ),
    )
    @gate.authenticated()
    async def waiting(request: Request, employee: Employee) -> Response:
        return build_response(
            Approvals(items=[build_approval_view(each) for each in await trips.list_approvals(employee)])
        )

    @router.get(
        "/approvals/{booking_id}",
        **describe(
            "getApproval",
            "Get the approval that waits for a decision on a booking",
            parameters=[BOOKING_ID],
            response=ApprovalView,
        ),
    )
    @gate.authenticated()
    async def one(request: Request, employee: Employee) -> Response:
        return build_response(
            build_approval_view(await trips.get_approval(employee, request.path_params["booking_id"]))
        )

    return router


def _build_view(gate: Gate, booking: Booking) -> BookingView:
    """Return the owner's view of a booking, with the token of its current wait unless that is an approval."""
    return build_booking_view(booking, gate.trips.get_owner_token(booking))
