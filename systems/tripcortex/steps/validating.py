"""ValidatePlan: the plan under the policy. The audit `plan_validation`; what is against it ends with why and what would go.

Where the text and the rules differ the employee is told, in the booking's notes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdfast.errors import Defect
from holdfast.flows import Next, Run
from tripcortex.auditing import audited, told
from tripcortex.knowledge.retrieving import RetrievedChunk
from tripcortex.model import AuditEvent, Booking, BookingPlan, Failure
from tripcortex.rules.judging import PlanJudgement, judged
from tripcortex.rules.policy import TravelPolicy
from tripcortex.steps.days import today_of
from tripcortex.steps.ending import OUT_OF_POLICY, failed
from tripcortex.steps.retrieving import passages_about, passages_of, policy_of
from tripcortex.workshop import stopwatch, workshop_of

STEP: Final = "ValidatePlan"
NOTES_MAX: Final = 10


async def validate_plan(run: Run[Booking]) -> Next:
    workshop, watch, booking = workshop_of(run), stopwatch(), run.item
    plan, policies = planned(booking), await policy_of(run.stores)
    passages = await _passages(run, plan, policies)
    judgement = judged(
        plan,
        policies,
        passages,
        today_of(booking, run.now),
        confidence=booking.policy_confidence,
        stop_without_policy=workshop.settings.stop_without_policy,
    )
    entry = audited(
        run.stores,
        booking,
        AuditEvent.plan_validation,
        STEP,
        given={"parameters": plan.parameters.model_dump(mode="json", exclude_none=True)},
        gave=_told(judgement),
        years=workshop.settings.audit_years,
        latency_ms=watch.ms,
    )
    notes = _notes(booking, judgement)
    if not judgement.ok:
        return failed(run, STEP, _refusal(judgement), audit=(entry,), notes=notes)
    plan = plan.model_copy(
        update={"policy_constraints": judgement.constraints, "citations": list(judgement.citations)}
    )
    # Flights are judged by the same passages.
    cited = [each.citation() for each in passages]
    return Next("validated", {"booking_plan": plan, "passages": cited, "notes": notes}, writes=(entry,))


def planned(booking: Booking) -> BookingPlan:
    if booking.booking_plan is None:
        raise Defect(f"The booking {booking.booking_id} stands in {booking.flow_state} and has no plan.")
    return booking.booking_plan


async def _passages(
    run: Run[Booking], plan: BookingPlan, policies: Sequence[TravelPolicy]
) -> tuple[RetrievedChunk, ...]:
    """Those of the request, and those that the plan lets ask for. Where the request found none, none are looked for."""
    workshop = workshop_of(run)
    found = await passages_of(run.stores, workshop, run.item)
    if run.item.policy_confidence == "none":
        return found
    more = await passages_about(run.stores, workshop, plan, policies)
    known = {each.chunk_id for each in found}
    return (*found, *{each.chunk_id: each for each in more if each.chunk_id not in known}.values())


def _notes(booking: Booking, judgement: PlanJudgement) -> list[str]:
    """The planner's, then the policy's; each once."""
    return list(dict.fromkeys((*booking.notes, *judgement.notes)))[:NOTES_MAX]


def _refusal(judgement: PlanJudgement) -> Failure:
    hard = [each for each in judgement.breaches if each.severity == "hard"]
    return Failure(
        code=OUT_OF_POLICY,
        text=" ".join(each.text for each in hard),
        remedy="; ".join(dict.fromkeys(each.remedy for each in hard)),
        breaches=list(judgement.breaches),
    )


def _told(judgement: PlanJudgement) -> dict[str, object]:
    return {
        "ok": judgement.ok,
        "needs_approval": judgement.needs_approval,
        "confidence": judgement.confidence,
        "policy_version": judgement.policy_version,
        "breaches": [{"code": each.code, "severity": each.severity} for each in judgement.breaches],
        "notes": [told(each) for each in judgement.notes[:NOTES_MAX]],
        "cited": [
            {"policy": each.file_name, "page": each.source_page, "section": each.section_title}
            for each in judgement.citations
        ],
    }
