"""Bookings over HTTP: begun, followed, answered and cancelled, each by the employee whose it is; approved by whom they are put before."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from tripcortex import patterns
from tripcortex.live.identity import Employee
from tripcortex.model import Booking
from tripcortex.routes.asking import cursor_of, json_of, limit_of
from tripcortex.routes.describing import BOOKING_ID, CURSOR, LIMIT, described
from tripcortex.routes.guarding import Gate
from tripcortex.routes.views import (
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
    answer_of,
    approval_view,
    audit_view,
    booking_view,
    decided_view,
)


def booking_routes(gate: Gate) -> APIRouter:
    router = APIRouter(tags=["bookings"])
    stores, trips = gate.stores, gate.trips

    @router.post(
        "/bookings",
        **described("requestTrip", "Ask for a trip", takes=TripAsked, gives=BookingView, status=202),
    )
    @gate.serves()
    async def request_trip(request: Request, employee: Employee) -> Response:
        asked = await json_of(request, TripAsked)
        booking = await trips.request(employee, asked.text)
        return answer_of(_shown(gate, booking), 202, {"location": f"/bookings/{booking.booking_id}"})

    @router.get(
        "/bookings",
        **described(
            "listBookings", "Own bookings, newest first", parameters=[LIMIT, CURSOR], gives=BookingPage
        ),
    )
    @gate.serves()
    async def history(request: Request, employee: Employee) -> Response:
        page = await stores.run(patterns.history(employee.employee_id, limit_of(request), cursor_of(request)))
        items = [_shown(gate, each) for each in page.items]
        return answer_of(BookingPage(items=items, cursor=page.cursor))

    @router.get(
        "/bookings/{booking_id}",
        **described("getBooking", "Where a booking stands", parameters=[BOOKING_ID], gives=BookingView),
    )
    @gate.serves()
    async def one(request: Request, employee: Employee) -> Response:
        return answer_of(_shown(gate, await trips.found(employee, request.path_params["booking_id"])))

    @router.get(
        "/bookings/{booking_id}/audit",
        **described(
            "getBookingAudit",
            "What was done for it, oldest first",
            parameters=[BOOKING_ID, LIMIT, CURSOR],
            gives=AuditPage,
        ),
    )
    @gate.serves()
    async def trail(request: Request, employee: Employee) -> Response:
        booking = await trips.found(employee, request.path_params["booking_id"])
        page = await stores.run(patterns.trail(booking.booking_id, limit_of(request), cursor_of(request)))
        return answer_of(AuditPage(items=[audit_view(each) for each in page.items], cursor=page.cursor))

    return router


def deciding_routes(gate: Gate) -> APIRouter:
    """What a booking waits for, and its end before its time."""
    router = APIRouter(tags=["bookings"])
    trips = gate.trips

    @router.post(
        "/bookings/{booking_id}/choice",
        **described(
            "chooseOption",
            "Choose one of the options",
            parameters=[BOOKING_ID],
            takes=ChoiceAsked,
            gives=BookingView,
        ),
    )
    @gate.serves()
    async def choose(request: Request, employee: Employee) -> Response:
        asked = await json_of(request, ChoiceAsked)
        named = request.path_params["booking_id"]
        return answer_of(_shown(gate, await trips.choose(employee, named, asked.option_id, asked.token)))

    @router.post(
        "/bookings/{booking_id}/answer",
        **described(
            "answerQuestion",
            "Answer what the planner asks",
            parameters=[BOOKING_ID],
            takes=AnswerAsked,
            gives=BookingView,
        ),
    )
    @gate.serves()
    async def answer(request: Request, employee: Employee) -> Response:
        asked = await json_of(request, AnswerAsked)
        named = request.path_params["booking_id"]
        return answer_of(_shown(gate, await trips.answer(employee, named, asked.text, asked.token)))

    @router.post(
        "/bookings/{booking_id}/cancel",
        **described(
            "cancelBooking",
            "End it before anything is bought",
            parameters=[BOOKING_ID],
            takes=CancelAsked,
            gives=BookingView,
        ),
    )
    @gate.serves()
    async def cancel(request: Request, employee: Employee) -> Response:
        asked = await json_of(request, CancelAsked)
        named = request.path_params["booking_id"]
        return answer_of(_shown(gate, await trips.cancel(employee, named, asked.reason)))

    @router.post(
        "/bookings/{booking_id}/approval",
        **described(
            "decideBooking",
            "Let a breach of the policy pass, or not; by whom it was put before",
            parameters=[BOOKING_ID],
            takes=DecisionAsked,
            gives=DecidedView,
        ),
    )
    @gate.serves()
    async def decide(request: Request, employee: Employee) -> Response:
        asked = await json_of(request, DecisionAsked)
        booking = await trips.decide(
            employee,
            asked.employee_id,
            request.path_params["booking_id"],
            asked.decision,
            token=asked.token,
            reason=asked.reason,
        )
        return answer_of(decided_view(booking))

    return router


def approval_routes(gate: Gate) -> APIRouter:
    """For whom choices that are against the policy are put before."""
    router = APIRouter(tags=["approvals"])
    trips = gate.trips

    @router.get(
        "/approvals",
        **described(
            "listApprovals", "What waits for the caller's decision, the longest first", gives=Approvals
        ),
    )
    @gate.serves()
    async def waiting(request: Request, employee: Employee) -> Response:
        return answer_of(Approvals(items=[approval_view(each) for each in await trips.approvals(employee)]))

    @router.get(
        "/approvals/{booking_id}",
        **described(
            "getApproval",
            "What there is to decide about a booking",
            parameters=[BOOKING_ID],
            gives=ApprovalView,
        ),
    )
    @gate.serves()
    async def one(request: Request, employee: Employee) -> Response:
        return answer_of(approval_view(await trips.approval(employee, request.path_params["booking_id"])))

    return router


def _shown(gate: Gate, booking: Booking) -> BookingView:
    return booking_view(booking, gate.trips.token_of(booking))
