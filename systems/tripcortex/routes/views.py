"""What is shown of a booking, of its audit and of policies."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel
from starlette.responses import Response

from holdfast.errors import Defect
from tripcortex.knowledge.schema import Policy, PolicyStatus
from tripcortex.model import (
    Approval,
    AuditEvent,
    AuditRecord,
    Booking,
    BookingPlan,
    BookingStatus,
    Breach,
    Citation,
    Failure,
    FlightOption,
    OpenQuestion,
)
from tripcortex.steps.showing import shown_option

JSON: Final = "application/json"
WaitsFor = Literal["choice", "answer", "approval"]


# What a booking waits for, by the state of the flow that it stands in.
WAITS_FOR: Final[Mapping[str, WaitsFor]] = {
    "options_presented": "choice",
    "asking": "answer",
    "approving": "approval",
}


class View(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, from_attributes=True)


class BookingView(View):
    """Where a booking stands."""

    booking_id: str
    status: BookingStatus
    waits_for: WaitsFor | None = Field(
        default=None, description="Whose turn it is: the employee's, by a choice or an answer; an approver's."
    )
    user_request: str
    notes: list[str] = Field(default=[], description="What was read other than it was written, or left out.")
    booking_plan: BookingPlan | None = None
    flight_options: list[FlightOption] = []
    selected_option: FlightOption | None = None
    question: OpenQuestion | None = None
    approval: Approval | None = None
    failure: Failure | None = None
    confirmation_number: str | None = None
    e_ticket_number: str | None = None
    paid_usd: Decimal | None = None
    fallback_url: str | None = Field(default=None, description="Where to book by hand, where we could not.")
    created_at: datetime
    updated_at: datetime
    due_at: datetime | None = Field(default=None, description="When what it waits for ends by itself.")
    token: str | None = Field(default=None, description="By which what it waits for is answered.")


class BookingPage(View):
    items: list[BookingView]
    cursor: str | None = Field(default=None, description="For the next page; null on the last.")


class ApprovalView(View):
    """What an approver decides on, and nothing else of the booking."""

    booking_id: str
    employee_id: str
    option: dict[str, Any] = Field(description="The flight that was chosen, as in a booking's options.")
    breaches: list[Breach] = Field(description="What is against the policy, and where it says so.")
    due_at: datetime
    at_deadline: str = Field(description="What holds where nobody answers: approve or refuse.")


class DecidedView(View):
    """What became of a decision; the booking itself is the employee's to see."""

    booking_id: str
    employee_id: str
    status: BookingStatus
    approval: Approval | None = None


class Approvals(View):
    items: list[ApprovalView]


class AuditView(View):
    """What one step was given and gave."""

    audit_id: str
    booking_id: str
    employee_id: str
    timestamp: datetime
    event: AuditEvent
    step: str
    input: dict[str, Any]
    output: dict[str, Any]
    model_id: str | None
    thinking_budget: str | None
    latency_ms: int | None
    error_code: str | None
    error_message: str | None


class AuditPage(View):
    items: list[AuditView]
    cursor: str | None = Field(default=None, description="For the next page; null on the last.")


class PolicyView(View):
    """One edition of a policy document, and how far it is read."""

    id: UUID
    document_id: UUID
    edition: int
    serves: bool
    file_name: str
    status: PolicyStatus
    total_pages: int | None
    total_chunks: int | None
    uploaded_by: str | None
    error_message: str | None
    created_at: datetime
    updated_at: datetime
    version: int


class Policies(View):
    items: list[PolicyView]


class Passage(View):
    """What was found in a policy, and where it stands."""

    text: str
    similarity: float
    citation: Citation


class Tried(View):
    """What a question finds in the policies that serve, as a booking would find it."""

    confidence: str = Field(description="none, low or high")
    max_similarity: float | None
    passages: list[Passage]


# --- what is asked ---------------------------------------------------------------------------------------------


Token = Annotated[
    str | None,
    Field(
        min_length=1,
        max_length=512,
        description="Of the wait that is meant; left out, the one that the booking stands in.",
    ),
]


class Asked(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=False, extra="forbid", hide_input_in_errors=True
    )


class TripAsked(Asked):
    text: str = Field(min_length=1, max_length=20_000, description="Where to, when, and what you would like.")


class ChoiceAsked(Asked):
    option_id: str = Field(min_length=1, max_length=64)
    token: Token = None


class AnswerAsked(Asked):
    text: str = Field(min_length=1, max_length=20_000)
    token: Token = None


class CancelAsked(Asked):
    reason: str = Field(default="", max_length=200)


class DecisionAsked(Asked):
    """By whom the booking was put before."""

    employee_id: str = Field(min_length=1, max_length=128, description="Whose booking it is.")
    decision: str = Field(pattern="^(approve|refuse)$")
    reason: str = Field(default="", max_length=200)
    token: Token = None


class QuestionAsked(Asked):
    question: str = Field(min_length=1, max_length=2_000)


# --- from rows -------------------------------------------------------------------------------------------------


def booking_view(booking: Booking, token: str | None = None) -> BookingView:
    shown = {name: getattr(booking, name) for name in BookingView.model_fields if hasattr(booking, name)}
    waits_for = WAITS_FOR.get(booking.flow_state)
    return BookingView.model_validate(
        {**shown, "waits_for": waits_for, "due_at": booking.flow_due, "token": token}
    )


def approval_view(booking: Booking) -> ApprovalView:
    """Of one that waits for an approval."""
    option, approval = booking.selected_option, booking.approval
    if option is None or approval is None:
        raise Defect(f"The booking {booking.booking_id} waits for an approval of nothing, or by nobody.")
    return ApprovalView(
        booking_id=booking.booking_id,
        employee_id=booking.employee_id,
        option=shown_option(option),
        breaches=option.breaches,
        due_at=approval.due_at,
        at_deadline=approval.at_deadline,
    )


def decided_view(booking: Booking) -> DecidedView:
    return DecidedView.model_validate(booking)


def audit_view(entry: AuditRecord) -> AuditView:
    return AuditView.model_validate(entry)


def policy_view(policy: Policy) -> PolicyView:
    return PolicyView.model_validate(policy)


def answer_of(view: View, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(view.model_dump_json(by_alias=True), status, headers, media_type=JSON)
