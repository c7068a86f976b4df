"""ValidatePlan: the plan under the policy. The audit `plan_validation`; what is against it ends with why and what would go."""

from __future__ import annotations

from typing import Final

from holdfast.errors import Defect
from holdfast.flows import Next, Run
from tripcortex.auditing import audited
from tripcortex.model import AuditEvent, Booking, BookingPlan, Failure
from tripcortex.rules.judging import PlanJudgement, judged
from tripcortex.steps.days import today_of
from tripcortex.steps.ending import OUT_OF_POLICY, failed
from tripcortex.steps.retrieving import passages_of, policy_of
from tripcortex.workshop import stopwatch, workshop_of

STEP: Final = "ValidatePlan"


async def validate_plan(run: Run[Booking]) -> Next:
    workshop, watch, booking = workshop_of(run), stopwatch(), run.item
    plan = planned(booking)
    judgement = judged(
        plan,
        await policy_of(run.stores),
        await passages_of(run.stores, workshop, booking),
        today_of(booking, run.now),
        confidence=booking.policy_confidence,  # type: ignore[arg-type]
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
    if not judgement.ok:
        return failed(run, STEP, _refusal(judgement), audit=(entry,))
    plan = plan.model_copy(
        update={"policy_constraints": judgement.constraints, "citations": list(judgement.citations)}
    )
    return Next("validated", {"booking_plan": plan}, writes=(entry,))


def planned(booking: Booking) -> BookingPlan:
    if booking.booking_plan is None:
        raise Defect(f"The booking {booking.booking_id} stands in {booking.flow_state} and has no plan.")
    return booking.booking_plan


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
        "cited": [
            {"policy": each.file_name, "page": each.source_page, "section": each.section_title}
            for each in judgement.citations
        ],
    }
