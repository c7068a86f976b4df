"""Step ValidatePlan: checks the plan against the policy; a hard breach ends the booking with a remedy.

Audit event `plan_validation`. If the policy's text and rules differ, the booking's notes inform the employee.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdfast.core.errors import InternalError
from holdfast.flows import Next, StepContext
from tripcortex.domain.policy_rules.compliance import PlanJudgement, check_plan
from tripcortex.domain.policy_rules.travel_policy import TravelPolicy
from tripcortex.model.entities import AuditEvent, Booking, BookingPlan, Failure
from tripcortex.policies.retrieval import RetrievedChunk
from tripcortex.workers.audit_entries import build_audit_entry, redact_text
from tripcortex.workers.dependencies import get_dependencies, start_stopwatch
from tripcortex.workers.steps.endings import OUT_OF_POLICY, fail_booking
from tripcortex.workers.steps.local_date import get_local_date
from tripcortex.workers.steps.retrieval import load_passages, load_policy_rules, retrieve_for_plan

STEP: Final = "ValidatePlan"
MAX_NOTES: Final = 10


async def validate_plan(context: StepContext[Booking]) -> Next:
    """Check the plan against rules and passages; store the constraints and move to `validated`, or fail."""
    dependencies, watch, booking = get_dependencies(context), start_stopwatch(), context.item
    plan, policies = get_plan(booking), await load_policy_rules(context.stores)
    passages = await _collect_passages(context, plan, policies)
    judgement = check_plan(
        plan,
        policies,
        passages,
        get_local_date(booking, context.now),
        confidence=booking.policy_confidence,
        stop_without_policy=dependencies.settings.stop_without_policy,
    )
    entry = build_audit_entry(
        context.stores,
        booking,
        AuditEvent.plan_validation,
        STEP,
        inputs={"parameters": plan.parameters.model_dump(mode="json", exclude_none=True)},
        outputs=_build_outputs(judgement),
        years=dependencies.settings.audit_years,
        latency_ms=watch.ms,
    )
    notes = _merge_notes(booking, judgement)
    if not judgement.ok:
        return fail_booking(context, STEP, _build_refusal(judgement), audit=(entry,), notes=notes)
    plan = plan.model_copy(
        update={"policy_constraints": judgement.constraints, "citations": list(judgement.citations)}
    )
    # The search step judges flights by the same passages.
    cited = [each.citation() for each in passages]
    return Next("validated", {"booking_plan": plan, "passages": cited, "notes": notes}, writes=(entry,))


def get_plan(booking: Booking) -> BookingPlan:
    """Return the booking's plan. Raise `InternalError` if there is none."""
    if booking.booking_plan is None:
        raise InternalError(f"Booking {booking.booking_id} is in state {booking.flow_state} without a plan.")
    return booking.booking_plan


async def _collect_passages(
    context: StepContext[Booking], plan: BookingPlan, policies: Sequence[TravelPolicy]
) -> tuple[RetrievedChunk, ...]:
    """Return the passages retrieved for the request, and further ones that depend on the plan.

    If the request found none, search no further.
    """
    dependencies = get_dependencies(context)
    found = await load_passages(context.stores, dependencies, context.item)
    if context.item.policy_confidence == "none":
        return found
    more = await retrieve_for_plan(context.stores, dependencies, plan, policies)
    known = {each.chunk_id for each in found}
    return (*found, *{each.chunk_id: each for each in more if each.chunk_id not in known}.values())


def _merge_notes(booking: Booking, judgement: PlanJudgement) -> list[str]:
    """Return the planner's notes, then the policy's, each once and at most ten."""
    return list(dict.fromkeys((*booking.notes, *judgement.notes)))[:MAX_NOTES]


def _build_refusal(judgement: PlanJudgement) -> Failure:
    """Return the failure with the texts and remedies of the hard breaches."""
    hard = [each for each in judgement.breaches if each.severity == "hard"]
    return Failure(
        code=OUT_OF_POLICY,
        text=" ".join(each.text for each in hard),
        remedy="; ".join(dict.fromkeys(each.remedy for each in hard)),
        breaches=list(judgement.breaches),
    )


def _build_outputs(judgement: PlanJudgement) -> dict[str, object]:
    """Return the outputs of the audit entry: verdict, breaches, notes and citations."""
    return {
        "ok": judgement.ok,
        "needs_approval": judgement.needs_approval,
        "confidence": judgement.confidence,
        "policy_version": judgement.policy_version,
        "breaches": [{"code": each.code, "severity": each.severity} for each in judgement.breaches],
        "notes": [redact_text(each) for each in judgement.notes[:MAX_NOTES]],
        "cited": [
            {"policy": each.file_name, "page": each.source_page, "section": each.section_title}
            for each in judgement.citations
        ],
    }
