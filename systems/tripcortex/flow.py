"""The flow of a booking: the document's states and steps, which follow which, and what becomes of each when it fails.

Three steps happen while the document's status is `searching`: the flow has a state for each, and shows them all as that. Ours are
`asking` (the planner needs to know something), `approving` (somebody lets a choice pass that is against the policy) and the ways
out that the document's diagram forgets: to `failed` and `cancelled` from wherever that happens.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from holdfast import Rate, Ulid
from holdfast.errors import CircuitOpen, InProgress, PartyFailed
from holdfast.flows import Answer, Cancel, Flow, Retry, State, Step, Wait
from tripcortex.model import Booking, BookingStatus, EmployeeId
from tripcortex.portal.booking_once import OutcomeOpen
from tripcortex.steps.choosing import approval_due, choose, decide
from tripcortex.steps.committing import begin_booking, complete_booking, not_completed
from tripcortex.steps.ending import cancelled, choice_expired, gave_up, question_expired
from tripcortex.steps.planning import answer_question, reason_and_plan
from tripcortex.steps.retrieving import embed_and_retrieve
from tripcortex.steps.searching import execute_search
from tripcortex.steps.validating import validate_plan

TOKEN_SECRET: Final = "tripcortex/flow-token"
CHOICE_S: Final = 1_800.0

# The portal is asked a few times, and then the employee is sent to its own pages.
PORTAL: Final = Retry(PartyFailed, tries=3, pause_s=0.5, pause_s_max=10)
# An open circuit is no reason to wait: the link is there at once.
CIRCUIT: Final = Retry(CircuitOpen, tries=1)
# What may have been bought is looked up for a day: only the portal knows. What was cut off may have been, too.
BOUGHT: Final = Retry((OutcomeOpen, InProgress, TimeoutError), tries=2_000, pause_s=1, pause_s_max=120)
MODEL: Final = Retry(PartyFailed, tries=4, pause_s=1, pause_s_max=20)

steps = Flow.queue("tripcortex-steps")


def _example() -> Booking:
    at = datetime(2026, 3, 10, 14, 30, tzinfo=UTC)
    return Booking(
        employee_id=EmployeeId("emp-42"),
        booking_id=Ulid("01KKBW6R000000000000000000"),
        user_request="Book me a flight to Chicago next Tuesday returning Thursday, prefer United",
        created_at=at,
        updated_at=at,
    )


BOOKING: Final = Flow(
    "booking",
    Booking,
    queue=steps,
    prefix="FL",
    move_id="D7",
    rate=Rate(per="step of a booking"),
    example=_example,
    shows=Booking.status,
    changed=Booking.updated_at,
    token_secret=TOKEN_SECRET,
    begins="initiated",
    states=(
        State(
            "initiated",
            Step(
                "EmbedAndRetrieve",
                embed_and_retrieve,
                to=("retrieved", "failed"),
                retries=(MODEL,),
                otherwise=gave_up("EmbedAndRetrieve", asks_model=True),
            ),
            shown=BookingStatus.initiated,
        ),
        State(
            "retrieved",
            Step(
                "ReasonAndPlan",
                reason_and_plan,
                to=("planned", "asking", "failed"),
                retries=(MODEL,),
                otherwise=gave_up("ReasonAndPlan", asks_model=True),
            ),
            shown=BookingStatus.searching,
        ),
        State(
            "asking",
            Wait(
                {"answer": Answer(answer_question, to=("retrieved",))},
                deadline_s=CHOICE_S,
                deadline_given=True,
                late=question_expired,
                late_to="cancelled",
                name="Question",
            ),
            shown=BookingStatus.searching,
        ),
        State(
            "planned",
            Step(
                "ValidatePlan", validate_plan, to=("validated", "failed"), otherwise=gave_up("ValidatePlan")
            ),
            shown=BookingStatus.searching,
        ),
        State(
            "validated",
            Step(
                "ExecuteSearch",
                execute_search,
                to=("options_presented", "failed"),
                retries=(PORTAL, CIRCUIT),
                otherwise=gave_up("ExecuteSearch"),
            ),
            shown=BookingStatus.searching,
        ),
        State(
            "options_presented",
            Wait(
                {"choose": Answer(choose, to=("user_selected", "approving"))},
                deadline_s=CHOICE_S,
                deadline_given=True,
                late=choice_expired,
                late_to="cancelled",
                name="Choice",
            ),
            shown=BookingStatus.options_presented,
        ),
        State(
            "approving",
            Wait(
                {"decide": Answer(decide, to=("user_selected", "failed"))},
                deadline_s=CHOICE_S,
                deadline_given=True,
                late=approval_due,
                late_to=("user_selected", "failed"),
                name="Approval",
            ),
            shown=BookingStatus.user_selected,
        ),
        State(
            "user_selected",
            Step(
                "BeginBooking",
                begin_booking,
                to=("booking", "failed"),
                retries=(PORTAL, CIRCUIT),
                otherwise=gave_up("BeginBooking"),
            ),
            shown=BookingStatus.user_selected,
        ),
        State(
            "booking",
            Step(
                "CompleteBooking",
                complete_booking,
                to=("confirmed", "failed"),
                retries=(BOUGHT, PORTAL, CIRCUIT),
                otherwise=not_completed,
            ),
            shown=BookingStatus.booking,
        ),
        State("confirmed", shown=BookingStatus.confirmed),
        State("failed", shown=BookingStatus.failed, failure=True),
        State("cancelled", shown=BookingStatus.cancelled),
    ),
    cancel=Cancel(
        cancelled,
        frm=(
            "initiated",
            "retrieved",
            "asking",
            "planned",
            "validated",
            "options_presented",
            "approving",
            "user_selected",
        ),
        to="cancelled",
    ),
)
