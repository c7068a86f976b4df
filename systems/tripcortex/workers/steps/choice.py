"""Answers Choice and Approval: the employee chooses an option; an approver decides on a breach."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from holdfast import Put
from holdfast.core.errors import InvalidRequest
from holdfast.flows import Next, StepContext
from tripcortex.domain.policy_rules.approvals import (
    APPROVE,
    apply_deadline,
    apply_decision,
    build_approval,
    is_assigned,
    list_approvers,
)
from tripcortex.model.entities import (
    Approval,
    AuditEvent,
    AuditRecord,
    Booking,
    EmployeeId,
    Failure,
    FlightOption,
)
from tripcortex.model.notices import build_message, build_notice_writes
from tripcortex.settings import TripCortexSettings
from tripcortex.workers.audit_entries import build_audit_entry, redact_text
from tripcortex.workers.steps.endings import build_message_writes, fail_booking
from tripcortex.workers.steps.retrieval import load_policy_rules
from tripcortex.workers.steps.serializers import option_to_json, to_json

STEP: Final = "Choice"
APPROVAL_STEP: Final = "Approval"
NOT_APPROVED: Final = "not_approved"


async def choose(context: StepContext[Booking], payload: Mapping[str, Any]) -> Next:
    """Apply the employee's choice, `optionId` of the payload; a breach of the policy needs an approval.

    Raise `InvalidRequest`, which changes nothing, if it was not offered or its offer has expired.
    """
    booking = context.item
    option = _find_offered(booking, payload)
    if option.offer_expires_at <= context.now:
        raise InvalidRequest("The portal no longer holds this offer: choose another, or cancel.")
    entry = build_audit_entry(
        context.stores,
        booking,
        AuditEvent.user_selection,
        STEP,
        inputs={"options": len(booking.flight_options)},
        outputs={
            "option": option.option_id,
            "carrier": option.carrier,
            "price_usd": str(option.price_usd),
            "breaches": [each.code for each in option.breaches],
        },
    )
    if not option.needs_approval:
        return Next("user_selected", {"selected_option": option}, writes=(entry,))
    return await _request_approval(context, option, entry)


async def _request_approval(
    context: StepContext[Booking], option: FlightOption, entry: Put[AuditRecord]
) -> Next:
    """Move to `approving` and send the approver a message; inform the employee if the role has no person.

    The deadline is the policy's even if the offer expires earlier: the purchase step then searches for the
    same flights.
    """
    booking, people = context.item, TripCortexSettings.load().approvers_by_role
    approval = build_approval(
        option.breaches,
        await load_policy_rules(context.stores),
        booking.employee_id,
        context.now,
        people=people,
        confidence=booking.policy_confidence or "none",
    )
    body = {
        "employeeId": booking.employee_id,
        "option": option_to_json(option),
        "breaches": [to_json(each) for each in option.breaches],
        "dueAt": approval.due_at.isoformat(),
        "offerEndsAt": option.offer_expires_at.isoformat(),
    }
    to = EmployeeId(approval.asked_of)
    messages = build_notice_writes(
        context.stores, build_message(context.stores, to, "approval", body, booking.booking_id)
    )
    changes: dict[str, Any] = {"selected_option": option, "approval": approval}
    if not is_assigned(approval.asked_of, people):
        changes["notes"] = [*booking.notes, build_unset_approver_note(approval)]
        # No employee holds the role, so the request reaches no approver: inform the traveller too.
        messages += build_message_writes(
            context.stores, booking, "approver_missing", {"notes": changes["notes"]}
        )
    return Next(
        "approving",
        changes,
        writes=(entry, *messages),
        deadline_s=(approval.due_at - context.now).total_seconds(),
    )


def build_unset_approver_note(approval: Approval) -> str:
    """Return the note that the approver role has no person, so the choice will be refused."""
    return (
        f"No employee is set for the approver role “{approval.asked_of}”, so this choice will be refused at "
        "its deadline: have an operator set TRIPCORTEX_APPROVERS, or request a flight inside the policy."
    )


async def decide_approval(context: StepContext[Booking], payload: Mapping[str, Any]) -> Next:
    """Apply an approver's decision: `decision`, `decidedBy` and `reason` of the payload.

    Raise `MayNotDecide` unless the approver is in the policy's chain and not the traveller, `ApprovalOver` if
    it is too late.
    """
    booking, people = context.item, TripCortexSettings.load().approvers_by_role
    approval = apply_decision(
        _get_approval(booking),
        str(payload.get("decision", "")),
        str(payload.get("decidedBy", "")),
        context.now,
        employee_id=booking.employee_id,
        chain=list_approvers(await load_policy_rules(context.stores), booking.employee_id, people),
        reason=redact_text(str(payload.get("reason") or "")) or None,
    )
    return _apply_decision(context, approval)


def expire_approval(context: StepContext[Booking]) -> Next:
    """Apply the policy's default decision after the deadline."""
    approval = _get_approval(context.item)
    return _apply_decision(context, apply_deadline(approval, max(context.now, approval.due_at)))


def build_refusal(approval: Approval) -> Failure:
    """Return the failure of a choice that the approver refused, with the approver's reason."""
    text = "The approver refused the choice." + (f" {approval.reason}" if approval.reason else "")
    return Failure(code=NOT_APPROVED, text=text, remedy="Request a flight inside the policy.")


def _apply_decision(context: StepContext[Booking], approval: Approval) -> Next:
    """Continue to the purchase if approved, else fail the booking; either way with an audit entry."""
    entry = _build_entry(context, approval)
    if approval.decision == APPROVE:
        return Next("user_selected", {"approval": approval}, writes=(entry,))
    return fail_booking(context, APPROVAL_STEP, build_refusal(approval), audit=(entry,), approval=approval)


def _build_entry(context: StepContext[Booking], approval: Approval) -> Put[AuditRecord]:
    """Return the audit entry of the decision, with the citations of the option's breaches."""
    return build_audit_entry(
        context.stores,
        context.item,
        AuditEvent.user_selection,
        APPROVAL_STEP,
        inputs={"asked_of": approval.asked_of},
        outputs={
            "decision": approval.decision,
            "decided_by": approval.decided_by,
            "cited": [
                each.citation.chunk_id
                for each in (context.item.selected_option.breaches if context.item.selected_option else [])
                if each.citation is not None
            ],
        },
    )


def _find_offered(booking: Booking, payload: Mapping[str, Any]) -> FlightOption:
    """Return the offered option with the payload's `optionId`. Raise `InvalidRequest` if there is none."""
    for option in booking.flight_options:
        if option.option_id == str(payload.get("optionId")):
            return option
    offered = ", ".join(each.option_id for each in booking.flight_options)
    raise InvalidRequest(f"This option was not offered: choose one of {offered}.")


def _get_approval(booking: Booking) -> Approval:
    """Return the booking's approval. Raise `InvalidRequest` if it has none."""
    if booking.approval is None:
        raise InvalidRequest("This booking has no approval request.")
    return booking.approval
