"""Step ReasonAndPlan: turns the request into a plan, a question to the employee, or a refusal.

Audit event `reasoning`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from holdfast import Put, Write
from holdfast.core.errors import InvalidRequest
from holdfast.flows import Next, StepContext
from tripcortex.domain.planner.ports import PlanRequest, Question, TravellerProfile, TripPlan
from tripcortex.domain.planner.text_normalization import is_yes, normalize_text
from tripcortex.model.entities import AuditEvent, AuditRecord, Booking, BookingPlan, Failure, OpenQuestion
from tripcortex.workers.audit_entries import build_audit_entry, redact_text
from tripcortex.workers.dependencies import Stopwatch, get_dependencies, start_stopwatch
from tripcortex.workers.steps.endings import build_message_writes, fail_booking
from tripcortex.workers.steps.retrieval import load_passages
from tripcortex.workers.steps.serializers import to_json

STEP: Final = "ReasonAndPlan"
MAX_QUESTIONS: Final = 5
MAX_ANSWER_CHARS: Final = 500
# A longer answer says more than yes.
MAX_YES_WORDS: Final = 3
TOO_MANY_QUESTIONS: Final = "not_understood"


async def reason_and_plan(context: StepContext[Booking]) -> Next:
    """Let the planner read the request with its answers; move to `planned`, `asking` or `failed`.

    Relative dates count from the time of the request.
    """
    dependencies, watch, booking = get_dependencies(context), start_stopwatch(), context.item
    request = PlanRequest(
        sentence=booking.user_request,
        employee=TravellerProfile(booking.employee_id, booking.time_zone, booking.home_airport),
        now=booking.created_at,
        answers=tuple(booking.answers),
        passages=await load_passages(context.stores, dependencies, booking),
    )
    outcome = await dependencies.planner.plan(request)
    if isinstance(outcome, TripPlan):
        return _accept_plan(context, outcome, watch)
    if isinstance(outcome, Question):
        return _ask_employee(context, outcome, watch)
    entry = _build_entry(context, watch, {"refused": outcome.code})
    return fail_booking(context, STEP, Failure(code=outcome.code, text=outcome.text), audit=(entry,))


def answer_question(context: StepContext[Booking], payload: Mapping[str, Any]) -> Next:
    """Add the employee's answer, `text` of the payload, and plan again.

    The planner reads it with the request, as if it had been part of it. Raise `InvalidRequest` if it is
    empty, too long or unprintable.
    """
    text = " ".join(str(payload.get("text", "")).split())
    if not text:
        raise InvalidRequest("The answer is empty: answer the question.")
    if len(text) > MAX_ANSWER_CHARS or not text.isprintable():
        raise InvalidRequest(f"Invalid answer: expected plain text of at most {MAX_ANSWER_CHARS} characters.")
    entry = build_audit_entry(
        context.stores,
        context.item,
        AuditEvent.user_selection,
        "Question",
        inputs={"question": context.item.question.missing if context.item.question else []},
        outputs={"answer": redact_text(text)},
    )
    # The planner sees what was confirmed, so that it needs no memory of its question.
    answer = _resolve_yes(context.item.question, text)
    return Next("retrieved", {"answers": [*context.item.answers, answer], "question": None}, writes=(entry,))


def _resolve_yes(question: OpenQuestion | None, text: str) -> str:
    """Return what a plain yes to the question means, or the text itself."""
    is_plain = len(text.split()) <= MAX_YES_WORDS and is_yes(normalize_text(text))
    return question.yes if question is not None and question.yes and is_plain else text


def _accept_plan(context: StepContext[Booking], outcome: TripPlan, watch: Stopwatch) -> Next:
    """Store the plan with its notes and move to `planned`."""
    plan = BookingPlan(
        confidence=outcome.confidence,
        parameters=outcome.parameters,
        preferences=outcome.preferences.model_copy(update={"avoided_vendors": list(outcome.avoided)}),
        citations=list(context.item.passages),
    )
    plan_json = plan.model_dump(mode="json", exclude={"citations", "policy_constraints"}, exclude_none=True)
    entry = _build_entry(
        context, watch, {"bookingPlan": plan_json, "notes": [redact_text(each) for each in outcome.notes]}
    )
    changes = {"booking_plan": plan, "notes": list(outcome.notes), "question": None}
    return Next("planned", changes, writes=(entry,))


def _ask_employee(context: StepContext[Booking], outcome: Question, watch: Stopwatch) -> Next:
    """Send the question and move to `asking`; fail the booking after five answers."""
    entry = _build_entry(context, watch, {"asked": list(outcome.missing)})
    if len(context.item.answers) >= MAX_QUESTIONS:
        text = "After several questions it is still not clear where you want to go, and when."
        remedy = "Write it in one sentence: from where, to where, on which days."
        failure = Failure(code=TOO_MANY_QUESTIONS, text=text, remedy=remedy)
        return fail_booking(context, STEP, failure, audit=(entry,))
    question = OpenQuestion(
        text=outcome.text, missing=list(outcome.missing), choices=list(outcome.choices), yes=outcome.yes
    )
    message: tuple[Write[Any], ...] = build_message_writes(
        context.stores, context.item, "question", to_json(question)
    )
    minutes = get_dependencies(context).settings.choice_minutes
    return Next("asking", {"question": question}, writes=(entry, *message), deadline_s=60.0 * minutes)


def _build_entry(
    context: StepContext[Booking], watch: Stopwatch, outputs: Mapping[str, Any]
) -> Put[AuditRecord]:
    """Return the audit entry of the planner's call; the request is redacted."""
    dependencies = get_dependencies(context)
    return build_audit_entry(
        context.stores,
        context.item,
        AuditEvent.reasoning,
        STEP,
        inputs={"user_request": redact_text(context.item.user_request), "answers": len(context.item.answers)},
        outputs=outputs,
        years=dependencies.settings.audit_years,
        model_id=dependencies.planner.model_id,
        thinking_budget=dependencies.planner.thinking_budget,
        latency_ms=watch.ms,
    )
