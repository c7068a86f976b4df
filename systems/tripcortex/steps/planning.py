"""ReasonAndPlan: the request as a plan, or a question to the employee, or a refusal. The audit `reasoning`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from holdfast import Put, Write
from holdfast.errors import InvalidRequest
from holdfast.flows import Next, Run
from tripcortex.auditing import audited, told
from tripcortex.model import AuditEvent, AuditRecord, Booking, BookingPlan, Failure, OpenQuestion
from tripcortex.planning.ports import Asked, Planned, Question, Traveller
from tripcortex.steps.ending import failed, telling
from tripcortex.steps.retrieving import passages_of
from tripcortex.steps.showing import shown
from tripcortex.workshop import Stopwatch, stopwatch, workshop_of

STEP: Final = "ReasonAndPlan"
QUESTIONS_MAX: Final = 5
ANSWER_CHARS_MAX: Final = 500
TOO_MANY_QUESTIONS: Final = "not_understood"


async def reason_and_plan(run: Run[Booking]) -> Next:
    workshop, watch, booking = workshop_of(run), stopwatch(), run.item
    asked = Asked(
        sentence=booking.user_request,
        employee=Traveller(booking.employee_id, booking.time_zone, booking.home_airport),
        now=booking.created_at,
        answers=tuple(booking.answers),
        passages=await passages_of(run.stores, workshop, booking),
    )
    outcome = await workshop.planner.plan(asked)
    if isinstance(outcome, Planned):
        return _planned(run, outcome, watch)
    if isinstance(outcome, Question):
        return _asking(run, outcome, watch)
    entry = _entry(run, watch, {"refused": outcome.code})
    return failed(run, STEP, Failure(code=outcome.code, text=outcome.text), audit=(entry,))


def answer_question(run: Run[Booking], given: Mapping[str, Any]) -> Next:
    """The employee's answer: read with the request, as if it had said so at once."""
    text = " ".join(str(given.get("text", "")).split())
    if not text:
        raise InvalidRequest("The answer is empty: say what was asked for.")
    if len(text) > ANSWER_CHARS_MAX or not text.isprintable():
        raise InvalidRequest(f"The answer is to be plain text of at most {ANSWER_CHARS_MAX} characters.")
    entry = audited(
        run.stores,
        run.item,
        AuditEvent.user_selection,
        "Question",
        given={"question": run.item.question.missing if run.item.question else []},
        gave={"answer": told(text)},
    )
    return Next("retrieved", {"answers": [*run.item.answers, text], "question": None}, writes=(entry,))


def _planned(run: Run[Booking], outcome: Planned, watch: Stopwatch) -> Next:
    plan = BookingPlan(
        confidence=outcome.confidence,
        parameters=outcome.parameters,
        preferences=outcome.preferences.model_copy(update={"avoided_vendors": list(outcome.avoided)}),
        citations=list(run.item.passages),
    )
    told_plan = plan.model_dump(mode="json", exclude={"citations", "policy_constraints"}, exclude_none=True)
    entry = _entry(run, watch, {"bookingPlan": told_plan, "notes": [told(each) for each in outcome.notes]})
    changes = {"booking_plan": plan, "notes": list(outcome.notes), "question": None}
    return Next("planned", changes, writes=(entry,))


def _asking(run: Run[Booking], outcome: Question, watch: Stopwatch) -> Next:
    entry = _entry(run, watch, {"asked": list(outcome.missing)})
    if len(run.item.answers) >= QUESTIONS_MAX:
        text = "After several questions it is still not clear where you want to go, and when."
        remedy = "Write it in one sentence: from where, to where, on which days."
        failure = Failure(code=TOO_MANY_QUESTIONS, text=text, remedy=remedy)
        return failed(run, STEP, failure, audit=(entry,))
    question = OpenQuestion(text=outcome.text, missing=list(outcome.missing), choices=list(outcome.choices))
    message: tuple[Write[Any], ...] = telling(run.stores, run.item, "question", shown(question))
    minutes = workshop_of(run).settings.choice_minutes
    return Next("asking", {"question": question}, writes=(entry, *message), deadline_s=60.0 * minutes)


def _entry(run: Run[Booking], watch: Stopwatch, gave: Mapping[str, Any]) -> Put[AuditRecord]:
    workshop = workshop_of(run)
    return audited(
        run.stores,
        run.item,
        AuditEvent.reasoning,
        STEP,
        given={"user_request": told(run.item.user_request), "answers": len(run.item.answers)},
        gave=gave,
        years=workshop.settings.audit_years,
        model_id=workshop.planner.model_id,
        thinking_budget=workshop.planner.thinking_budget,
        latency_ms=watch.ms,
    )
