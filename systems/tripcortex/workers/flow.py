"""The flow of a booking: the document's states and steps, their order, and what happens when a step fails.

Three steps run while the document's status is `searching`: the flow has a state for each and shows all of
them as `searching`. The document does not have `asking` (the planner needs more information), `approving` (an
approver decides on a choice that breaches the policy), `repriced` (an approved flight costs more, or is sold
out), nor all ways out to `failed` and `cancelled`.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from holdfast import Rate
from holdfast.core.errors import CircuitOpen, ExternalServiceFailed, InProgress
from holdfast.flows import Answer, Cancel, Flow, Retry, State, Step, Wait
from holdfast.model.ulids import Ulid
from tripcortex.domain.policy_rules.approvals import list_people
from tripcortex.integrations.portal.purchases import OutcomeOpen
from tripcortex.model.entities import Booking, BookingStatus, EmployeeId
from tripcortex.workers.steps.approval import decide_approval, expire_approval, reassign_approval
from tripcortex.workers.steps.choice import choose
from tripcortex.workers.steps.endings import (
    audit_retry,
    cancel_booking,
    expire_choice,
    expire_question,
    fail_after_retries,
)
from tripcortex.workers.steps.plan import answer_question, reason_and_plan
from tripcortex.workers.steps.purchase import begin_booking, complete_booking, handle_incomplete_purchase
from tripcortex.workers.steps.repricing import (
    REPRICING_S,
    accept_price,
    expire_repricing,
    search_again,
)
from tripcortex.workers.steps.retrieval import embed_and_retrieve
from tripcortex.workers.steps.search import execute_search
from tripcortex.workers.steps.validation import validate_plan

TOKEN_SECRET: Final = "tripcortex/flow-token"
CHOICE_S: Final = 1_800.0

# After these attempts the employee gets a link to the portal's own pages.
PORTAL_RETRY: Final = Retry(ExternalServiceFailed, max_attempts=3, retry_delay_s=0.5, max_retry_delay_s=10)
# With an open circuit the employee gets the link at once.
NO_RETRY_ON_OPEN_CIRCUIT: Final = Retry(CircuitOpen, max_attempts=1)
# Only the portal knows whether it sold, so look up the order for a day. A timed-out call may have bought.
OUTCOME_RETRY: Final = Retry(
    (OutcomeOpen, InProgress, TimeoutError), max_attempts=2_000, retry_delay_s=1, max_retry_delay_s=120
)
MODEL_RETRY: Final = Retry(ExternalServiceFailed, max_attempts=4, retry_delay_s=1, max_retry_delay_s=20)

step_queue = Flow.queue("tripcortex-steps")


def _build_example() -> Booking:
    """Return the booking with which the flow's access patterns are measured."""
    at = datetime(2026, 3, 10, 14, 30, tzinfo=UTC)
    return Booking(
        employee_id=EmployeeId("emp-42"),
        booking_id=Ulid("01KKBW6R000000000000000000"),
        user_request="Book me a flight to Chicago next Tuesday returning Thursday, prefer United",
        created_at=at,
        updated_at=at,
    )


def get_employee(booking: Booking) -> str:
    """Return who answers questions and chooses an option."""
    return booking.employee_id


def get_approver(booking: Booking) -> str | None:
    """Return who is asked to approve now."""
    return None if booking.approval is None else ", ".join(list_people(booking.approval))


BOOKING_FLOW: Final = Flow(
    "booking",
    Booking,
    queue=step_queue,
    prefix="FL",
    move_id="D7",
    rate=Rate(per="step of a booking"),
    example=_build_example,
    shown_attribute=Booking.status,
    changed_attribute=Booking.updated_at,
    token_secret=TOKEN_SECRET,
    initial_state="initiated",
    states=(
        State(
            "initiated",
            Step(
                "EmbedAndRetrieve",
                embed_and_retrieve,
                to=("retrieved", "failed"),
                retries=(MODEL_RETRY,),
                on_failure=fail_after_retries("EmbedAndRetrieve", uses_model=True),
                on_retry=audit_retry("EmbedAndRetrieve"),
            ),
            shown_as=BookingStatus.initiated,
        ),
        State(
            "retrieved",
            Step(
                "ReasonAndPlan",
                reason_and_plan,
                to=("planned", "asking", "failed"),
                retries=(MODEL_RETRY,),
                on_failure=fail_after_retries("ReasonAndPlan", uses_model=True),
                on_retry=audit_retry("ReasonAndPlan"),
            ),
            shown_as=BookingStatus.searching,
        ),
        State(
            "asking",
            Wait(
                {"answer": Answer(answer_question, to=("retrieved",))},
                deadline_s=CHOICE_S,
                deadline_from_next=True,
                on_deadline=expire_question,
                deadline_to="cancelled",
                name="Question",
                answered_by=get_employee,
            ),
            shown_as=BookingStatus.searching,
        ),
        State(
            "planned",
            Step(
                "ValidatePlan",
                validate_plan,
                to=("validated", "failed"),
                on_failure=fail_after_retries("ValidatePlan"),
            ),
            shown_as=BookingStatus.searching,
        ),
        State(
            "validated",
            Step(
                "ExecuteSearch",
                execute_search,
                to=("options_presented", "failed"),
                retries=(PORTAL_RETRY, NO_RETRY_ON_OPEN_CIRCUIT),
                on_failure=fail_after_retries("ExecuteSearch"),
                on_retry=audit_retry("ExecuteSearch"),
            ),
            shown_as=BookingStatus.searching,
        ),
        State(
            "options_presented",
            Wait(
                {"choose": Answer(choose, to=("user_selected", "approving"))},
                deadline_s=CHOICE_S,
                deadline_from_next=True,
                on_deadline=expire_choice,
                deadline_to="cancelled",
                name="Choice",
                answered_by=get_employee,
            ),
            shown_as=BookingStatus.options_presented,
        ),
        State(
            "approving",
            Wait(
                {
                    "decide": Answer(decide_approval, to=("approving", "user_selected", "failed")),
                    # The directory changed: those who have left are replaced.
                    "reassign": Answer(reassign_approval, to=("approving",)),
                },
                deadline_s=CHOICE_S,
                deadline_from_next=True,
                # Halfway the stage is escalated, and the wait goes on.
                on_deadline=expire_approval,
                deadline_to=("approving", "user_selected", "failed"),
                name="Approval",
                answered_by=get_approver,
            ),
            shown_as=BookingStatus.user_selected,
        ),
        State(
            "user_selected",
            Step(
                "BeginBooking",
                begin_booking,
                to=("booking", "approving", "repriced", "failed"),
                retries=(PORTAL_RETRY, NO_RETRY_ON_OPEN_CIRCUIT),
                on_failure=fail_after_retries("BeginBooking"),
                on_retry=audit_retry("BeginBooking"),
            ),
            shown_as=BookingStatus.user_selected,
        ),
        State(
            "repriced",
            Wait(
                {
                    "accept": Answer(accept_price, to=("user_selected",)),
                    "search": Answer(search_again, to=("validated",)),
                },
                deadline_s=REPRICING_S,
                on_deadline=expire_repricing,
                deadline_to="cancelled",
                name="Repricing",
                answered_by=get_employee,
            ),
            shown_as=BookingStatus.user_selected,
        ),
        State(
            "booking",
            Step(
                "CompleteBooking",
                complete_booking,
                to=("confirmed", "failed"),
                retries=(OUTCOME_RETRY, PORTAL_RETRY, NO_RETRY_ON_OPEN_CIRCUIT),
                on_failure=handle_incomplete_purchase,
                on_retry=audit_retry("CompleteBooking"),
            ),
            shown_as=BookingStatus.booking,
        ),
        State("confirmed", shown_as=BookingStatus.confirmed),
        State("failed", shown_as=BookingStatus.failed, is_failure=True),
        State("cancelled", shown_as=BookingStatus.cancelled),
    ),
    cancel=Cancel(
        cancel_booking,
        from_states=(
            "initiated",
            "retrieved",
            "asking",
            "planned",
            "validated",
            "options_presented",
            "approving",
            "user_selected",
            "repriced",
        ),
        to="cancelled",
    ),
)
