"""Schemas of the HTTP requests and responses, and the functions that build responses from stored rows."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from holdfast.core.errors import InternalError
from tripcortex.domain.policy_rules.approvals import to_staged
from tripcortex.model.entities import (
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
    Repricing,
)
from tripcortex.model.policies.schema import Policy, PolicyStatus
from tripcortex.workers.steps.serializers import option_to_json

WaitsFor = Literal["choice", "answer", "approval", "price"]


# What a booking waits for, by its state in the flow.
WAITS_FOR: Final[Mapping[str, WaitsFor]] = {
    "options_presented": "choice",
    "asking": "answer",
    "approving": "approval",
    "repriced": "price",
}


class View(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, from_attributes=True)


class BookingView(View):
    """A booking and its status."""

    booking_id: str
    status: BookingStatus
    waits_for: WaitsFor | None = Field(
        default=None,
        description=(
            "What it waits for: the employee's choice or answer, the approvers' approval, or whether the "
            "employee accepts a new price."
        ),
    )
    user_request: str
    notes: list[str] = Field(default=[], description="What the planner interpreted or ignored.")
    booking_plan: BookingPlan | None = None
    flight_options: list[FlightOption] = []
    selected_option: FlightOption | None = None
    question: OpenQuestion | None = None
    approval: Approval | None = None
    repricing: Repricing | None = None
    failure: Failure | None = None
    confirmation_number: str | None = None
    e_ticket_number: str | None = None
    paid_usd: Decimal | None = None
    fallback_url: str | None = Field(
        default=None, description="A page where you can book, if booking failed."
    )
    created_at: datetime
    updated_at: datetime
    due_at: datetime | None = Field(default=None, description="The deadline of the current wait.")
    token: str | None = Field(
        default=None, description="The token of the current wait: send it with the answer."
    )


class BookingPage(View):
    items: list[BookingView]
    cursor: str | None = Field(default=None, description="The cursor of the next page; null on the last.")


class ApproverView(View):
    """An approver whom the policy names, and what was decided for them."""

    word: str
    stage: int
    people: list[str]
    decision: str | None = None
    decided_by: str | None = None


class ApprovalView(View):
    """The option and breaches that an approver decides about, without the rest of the booking."""

    booking_id: str
    employee_id: str
    option: dict[str, Any] = Field(description="The chosen flight, as in a booking's options.")
    breaches: list[Breach] = Field(description="The breaches of the policy, with citations.")
    due_at: datetime
    at_deadline: str = Field(description="The decision if no approver answers: approve or refuse.")
    price_usd: Decimal
    stage: int = Field(description="The current stage, from 1.")
    stages: int
    approvers: list[ApproverView] = Field(description="The approvers of all stages, in the policy's words.")


class DecidedView(View):
    """The result of a decision; only the employee sees the booking itself."""

    booking_id: str
    employee_id: str
    status: BookingStatus
    approval: Approval | None = None


class Approvals(View):
    items: list[ApprovalView]


class AuditView(View):
    """The inputs and outputs of one step."""

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
    cursor: str | None = Field(default=None, description="The cursor of the next page; null on the last.")


class PolicyView(View):
    """One edition of a policy document, and its ingestion status."""

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
    """A passage of a policy, with its citation."""

    text: str
    similarity: float
    citation: Citation


class Tried(View):
    """The passages that a question retrieves from the policies in service, as a booking would."""

    confidence: str = Field(description="none, low or high")
    max_similarity: float | None
    passages: list[Passage]


class ImportView(View):
    """The difference between a CSV file and the directory."""

    added: tuple[str, ...] = Field(description="The ids of new employees.")
    changed: tuple[str, ...]
    removed: tuple[str, ...] = Field(description="Employees whom the file left out, now inactive.")
    unchanged: int
    is_dry_run: bool = Field(description="Nothing was written.")


# --- request bodies -----------------------------------------------------------------------------------------


Token = Annotated[
    str | None,
    Field(
        min_length=1,
        max_length=512,
        description="The token of the wait to answer; default: the current wait.",
    ),
]


class RequestBody(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=False, extra="forbid", hide_input_in_errors=True
    )


class TripAsked(RequestBody):
    text: str = Field(min_length=1, max_length=20_000, description="Where to, when, and your preferences.")
    answer: str | None = Field(
        default=None,
        min_length=1,
        max_length=500,
        description="The answer to the question whether to book, asked about the same text: yes or no.",
    )


class ChoiceAsked(RequestBody):
    option_id: str = Field(min_length=1, max_length=64)
    token: Token = None


class AnswerAsked(RequestBody):
    text: str = Field(min_length=1, max_length=20_000)
    token: Token = None


class CancelAsked(RequestBody):
    reason: str = Field(default="", max_length=200)


class DecisionAsked(RequestBody):
    """A decision by a person who is asked to approve."""

    employee_id: str = Field(min_length=1, max_length=128, description="The owner of the booking.")
    decision: str = Field(pattern="^(approve|refuse)$")
    reason: str = Field(default="", max_length=200)
    token: Token = None


class PriceAsked(RequestBody):
    """The traveller's answer to a new price of an approved flight."""

    decision: str = Field(pattern="^(accept|search)$")
    token: Token = None


class QuestionAsked(RequestBody):
    question: str = Field(min_length=1, max_length=2_000)


# --- from rows ----------------------------------------------------------------------------------------------


def build_booking_view(booking: Booking, token: str | None = None) -> BookingView:
    """Return the owner's view of a booking; `token` answers its current wait."""
    shown = {name: getattr(booking, name) for name in BookingView.model_fields if hasattr(booking, name)}
    waits_for = WAITS_FOR.get(booking.flow_state)
    # The wait ends earlier for an escalation, which is no deadline.
    is_approving = waits_for == "approval" and booking.approval is not None
    due_at = booking.approval.due_at if is_approving and booking.approval else booking.flow_due
    return BookingView.model_validate({**shown, "waits_for": waits_for, "due_at": due_at, "token": token})


def build_approval_view(booking: Booking) -> ApprovalView:
    """Return the approver's view of a booking. Raise `InternalError` if it has no option or no approval."""
    option, approval = booking.selected_option, booking.approval
    if option is None or approval is None:
        raise InternalError(
            f"Booking {booking.booking_id} waits for an approval without an option or an approver."
        )
    return ApprovalView(
        booking_id=booking.booking_id,
        employee_id=booking.employee_id,
        option=option_to_json(option),
        breaches=option.breaches,
        due_at=approval.due_at,
        at_deadline=approval.at_deadline,
        price_usd=option.price_usd,
        stage=approval.stage + 1,
        stages=max(len(approval.stages), 1),
        approvers=[
            ApproverView(
                word=ask.word,
                stage=position,
                people=ask.people,
                decision=ask.decision,
                decided_by=ask.decided_by,
            )
            for position, stage in enumerate(to_staged(approval).stages, 1)
            for ask in stage.asks
        ],
    )


def build_decided_view(booking: Booking) -> DecidedView:
    """Return what an approver sees of a booking after the decision."""
    return DecidedView.model_validate(booking)


def build_audit_view(entry: AuditRecord) -> AuditView:
    return AuditView.model_validate(entry)


def build_policy_view(policy: Policy) -> PolicyView:
    return PolicyView.model_validate(policy)
