"""Booking routes: request, follow, answer and cancel for the owner; list and decide for the approver."""

from typing import Annotated

from fastapi import APIRouter, Depends, Response

from holdfast.web import JsonBody
from tripcortex.api.answer_view import AnswerView, build_answer_view
from tripcortex.api.identity import Employee
from tripcortex.api.routes.auth import Gate
from tripcortex.api.routes.parameters import BookingId, RequestedPage
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
    PriceAsked,
    TripAsked,
    build_approval_view,
    build_audit_view,
    build_booking_view,
    build_decided_view,
)
from tripcortex.api.sentence_answers import SentenceAnswer
from tripcortex.model import patterns
from tripcortex.model.entities import Booking


def build_booking_routes(gate: Gate) -> APIRouter:
    """Return the routes that request a trip and read bookings and their audit entries."""
    router = APIRouter(tags=["bookings"])
    stores, trips = gate.stores, gate.trips

    @router.post(
        "/bookings",
        operation_id="requestTrip",
        summary="Request a trip, or ask something",
        status_code=202,
        response_description="The request is accepted. Read the booking to follow its progress.",
        responses={
            200: {"model": AnswerView, "description": "The text asks for no new flight: its answer."},
        },
    )
    async def request_trip(
        employee: Annotated[Employee, Depends(gate.employee)],
        body: Annotated[TripAsked, Depends(JsonBody(TripAsked))],
        response: Response,
    ) -> BookingView | AnswerView:
        booking = await trips.request(employee, body.text, body.answer)
        if isinstance(booking, SentenceAnswer):
            response.status_code = 200
            return build_answer_view(booking)
        response.headers["location"] = f"/bookings/{booking.booking_id}"
        return _build_view(gate, booking)

    @router.get("/bookings", operation_id="listBookings", summary="List the caller's bookings, newest first")
    async def history(
        employee: Annotated[Employee, Depends(gate.employee)], asked: RequestedPage
    ) -> BookingPage:
        page = await stores.run(patterns.history(employee.employee_id, asked.limit, asked.cursor))
        return BookingPage(items=[_build_view(gate, each) for each in page.items], cursor=page.cursor)

    @router.get("/bookings/{booking_id}", operation_id="getBooking", summary="Get a booking")
    async def one(
        employee: Annotated[Employee, Depends(gate.employee)], booking_id: BookingId
    ) -> BookingView:
        return _build_view(gate, await trips.get_booking(employee, booking_id))

    @router.get(
        "/bookings/{booking_id}/audit",
        operation_id="getBookingAudit",
        summary="List a booking's audit entries, oldest first",
    )
    async def trail(
        employee: Annotated[Employee, Depends(gate.employee)], booking_id: BookingId, asked: RequestedPage
    ) -> AuditPage:
        booking = await trips.get_booking(employee, booking_id)
        page = await stores.run(patterns.trail(booking.booking_id, asked.limit, asked.cursor))
        return AuditPage(items=[build_audit_view(each) for each in page.items], cursor=page.cursor)

    return router


def build_decision_routes(gate: Gate) -> APIRouter:
    """Return the routes that answer what a booking waits for (choice, answer, approval), and cancel it."""
    router = APIRouter(tags=["bookings"])
    trips = gate.trips

    @router.post(
        "/bookings/{booking_id}/choice", operation_id="chooseOption", summary="Choose one of the options"
    )
    async def choose(
        employee: Annotated[Employee, Depends(gate.employee)],
        booking_id: BookingId,
        body: Annotated[ChoiceAsked, Depends(JsonBody(ChoiceAsked))],
    ) -> BookingView:
        return _build_view(gate, await trips.choose(employee, booking_id, body.option_id, body.token))

    @router.post(
        "/bookings/{booking_id}/answer",
        operation_id="answerQuestion",
        summary="Answer the planner's question",
    )
    async def answer(
        employee: Annotated[Employee, Depends(gate.employee)],
        booking_id: BookingId,
        body: Annotated[AnswerAsked, Depends(JsonBody(AnswerAsked))],
    ) -> BookingView:
        return _build_view(gate, await trips.answer(employee, booking_id, body.text, body.token))

    @router.post(
        "/bookings/{booking_id}/price",
        operation_id="settlePrice",
        summary="Accept the new price of an approved flight, or search again",
    )
    async def settle_price(
        employee: Annotated[Employee, Depends(gate.employee)],
        booking_id: BookingId,
        body: Annotated[PriceAsked, Depends(JsonBody(PriceAsked))],
    ) -> BookingView:
        return _build_view(gate, await trips.settle_price(employee, booking_id, body.decision, body.token))

    @router.post(
        "/bookings/{booking_id}/cancel",
        operation_id="cancelBooking",
        summary="Cancel a booking before anything is bought",
    )
    async def cancel(
        employee: Annotated[Employee, Depends(gate.employee)],
        booking_id: BookingId,
        body: Annotated[CancelAsked, Depends(JsonBody(CancelAsked))],
    ) -> BookingView:
        return _build_view(gate, await trips.cancel(employee, booking_id, body.reason))

    @router.post(
        "/bookings/{booking_id}/approval",
        operation_id="decideBooking",
        summary="Approve or refuse a breach of the policy, as an approver who is asked",
    )
    async def decide(
        employee: Annotated[Employee, Depends(gate.employee)],
        booking_id: BookingId,
        body: Annotated[DecisionAsked, Depends(JsonBody(DecisionAsked))],
    ) -> DecidedView:
        booking = await trips.decide(
            employee,
            body.employee_id,
            booking_id,
            body.decision,
            token=body.token,
            reason=body.reason,
        )
        return build_decided_view(booking)

    return router


def build_approval_routes(gate: Gate) -> APIRouter:
    """Return the routes that list and read the approvals that wait for the caller."""
    router = APIRouter(tags=["approvals"])
    trips = gate.trips

    @router.get(
        "/approvals",
        operation_id="listApprovals",
        summary="List the approvals that wait for the caller's decision, oldest first",
    )
    async def waiting(employee: Annotated[Employee, Depends(gate.employee)]) -> Approvals:
        return Approvals(items=[build_approval_view(each) for each in await trips.list_approvals(employee)])

    @router.get(
        "/approvals/{booking_id}",
        operation_id="getApproval",
        summary="Get the approval that waits for a decision on a booking",
    )
    async def one(
        employee: Annotated[Employee, Depends(gate.employee)], booking_id: BookingId
    ) -> ApprovalView:
        return build_approval_view(await trips.get_approval(employee, booking_id))

    return router


def _build_view(gate: Gate, booking: Booking) -> BookingView:
    """Return the owner's view of a booking, with the token of its current wait unless that is an approval."""
    return build_booking_view(booking, gate.trips.get_owner_token(booking))
