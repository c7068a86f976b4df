"""Step ValidatePlan: judges the plan by the confirmed rules; a forbidden trip ends the booking with a remedy.

Audit event `plan_validation`. Passages that were retrieved are quoted to the employee and never decide.
"""

from __future__ import annotations

from typing import Final

from holdfast.core.errors import InternalError
from holdfast.flows import Next, StepContext
from tripcortex.domain.policy_rules.booking_checks import judge_plan
from tripcortex.domain.policy_rules.judgement import Judgement
from tripcortex.domain.policy_rules.rules import Outcome
from tripcortex.model.entities import AuditEvent, Booking, BookingPlan, Failure
from tripcortex.policies.rule_loader import load_rules_for_judgement
from tripcortex.workers.audit_entries import build_audit_entry, redact_text
from tripcortex.workers.dependencies import find_employee_level, get_dependencies, start_stopwatch
from tripcortex.workers.steps.endings import OUT_OF_POLICY, fail_booking
from tripcortex.workers.steps.local_date import get_local_date

STEP: Final = "ValidatePlan"
MAX_NOTES: Final = 10


async def validate_plan(context: StepContext[Booking]) -> Next:
    """Judge the plan by the confirmed rules; store the constraints and move to `validated`, or fail."""
    dependencies, watch, booking = get_dependencies(context), start_stopwatch(), context.item
    plan = get_plan(booking)
    judgement = judge_plan(
        plan,
        await load_rules_for_judgement(context.stores),
        get_local_date(booking, context.now),
        employee_level=await find_employee_level(context),
    )
    entry = build_audit_entry(
        context.stores,
        booking,
        AuditEvent.plan_validation,
        STEP,
        inputs={"parameters": plan.parameters.model_dump(mode="json", exclude_none=True)},
        outputs=build_judgement_outputs(judgement),
        years=dependencies.settings.audit_years,
        latency_ms=watch.ms,
    )
    notes = _merge_notes(booking, judgement)
    if judgement.verdict is Outcome.forbidden:
        return fail_booking(context, STEP, _build_refusal(judgement), audit=(entry,), notes=notes)
    plan = plan.model_copy(
        update={"policy_constraints": judgement.constraints, "citations": list(judgement.citations)}
    )
    return Next("validated", {"booking_plan": plan, "notes": notes}, writes=(entry,))


def get_plan(booking: Booking) -> BookingPlan:
    """Return the booking's plan. Raise `InternalError` if there is none."""
    if booking.booking_plan is None:
        raise InternalError(f"Booking {booking.booking_id} is in state {booking.flow_state} without a plan.")
    return booking.booking_plan


def _merge_notes(booking: Booking, judgement: Judgement) -> list[str]:
    """Return the planner's notes, then the policy's, each once and at most ten."""
    return list(dict.fromkeys((*booking.notes, *judgement.notes)))[:MAX_NOTES]


def _build_refusal(judgement: Judgement) -> Failure:
    """Return the failure with the texts and remedies of the hard breaches."""
    hard = [each for each in judgement.breaches if each.severity == "hard"]
    return Failure(
        code=OUT_OF_POLICY,
        text=" ".join(each.text for each in hard),
        remedy="; ".join(dict.fromkeys(each.remedy for each in hard)),
        breaches=list(judgement.breaches),
    )


def build_judgement_outputs(judgement: Judgement) -> dict[str, object]:
    """Return the outputs of the audit entry: verdict, breaches, and the rules that were applied."""
    return {
        "ok": judgement.verdict is not Outcome.forbidden,
        "verdict": judgement.verdict.value,
        "needs_approval": judgement.verdict is Outcome.approval,
        "approvers": list(judgement.approvers),
        "uncovered": list(judgement.uncovered),
        "breaches": [{"code": each.code, "severity": each.severity} for each in judgement.breaches],
        "notes": [redact_text(each) for each in judgement.notes[:MAX_NOTES]],
        "cited": [
            {
                "rule": each.chunk_id.removeprefix("rule:"),
                "policy": each.file_name,
                "page": each.source_page,
                "section": each.section_title,
            }
            for each in judgement.citations
        ],
    }
