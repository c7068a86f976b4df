"""Answers of Approval: people decide on a breach, the directory changes, a stage is escalated or ends.

Every change is a transition from `approving`, so each decision, escalation and message is stored once, with
its audit entry. Who is asked was resolved when the approval was requested; delegates count at the time of the
decision.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from holdfast import Put, Write
from holdfast.core.errors import InvalidRequest, RequestRefused
from holdfast.flows import Next, StepContext
from tripcortex.directory.approvers import (
    ApproverFinder,
    describe_substitutes,
    has_left,
    list_delegates,
    list_leavers,
    list_principals,
    open_finder,
)
from tripcortex.domain.policy_rules.approvals import (
    APPROVE,
    MayNotDecide,
    apply_deadline,
    apply_decision,
    build_approval,
    escalate,
    get_next_time,
    get_open_asks,
    list_default_words,
    list_people,
    list_words,
    reassign,
    to_staged,
)
from tripcortex.model.entities import (
    Approval,
    ApprovalAsk,
    AuditEvent,
    AuditRecord,
    Booking,
    Breach,
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

APPROVAL_STEP: Final = "Approval"
APPROVING: Final = "approving"
NOT_APPROVED: Final = "not_approved"

# Kinds of messages to approvers.
ASKED: Final = "approval"
REMINDED: Final = "approval_reminder"


async def request_approval(
    context: StepContext[Booking],
    option: FlightOption,
    breaches: Sequence[Breach],
    writes: Sequence[Write[Any]],
    *,
    accepted_usd: Decimal,
    **changes: Any,
) -> Next:
    """Return the transition to `approving`: the first stage is asked about these breaches of the option.

    The deadline is the policy's even if the offer expires earlier: it is priced again after the approval.
    Raise `RequestRefused` if the traveller is the only approver.
    """
    booking, settings = context.item, TripCortexSettings.load()
    policies = await load_policy_rules(context.stores)
    finder = await open_finder(context.stores, booking.employee_id, settings)
    # A breach that names no approver, or the policy's own, goes to the first of these; the others stand in.
    default = list_default_words(policies)
    named = [each for each in breaches if each.approvers and tuple(each.approvers) != default]
    stages = await finder.find_stages(list_words(named), default if len(named) < len(breaches) else ())
    approval = build_approval(
        breaches,
        policies,
        stages,
        context.now,
        confidence=booking.policy_confidence or "none",
        escalate_percent=settings.escalation_percent,
        price_usd=option.price_usd,
    ).model_copy(update={"accepted_usd": accepted_usd})
    seen = booking.model_copy(update={"selected_option": option, "approval": approval})
    changes |= {"selected_option": option, "approval": approval}
    if notes := describe_substitutes(ask for stage in stages for ask in stage):
        changes["notes"] = list(dict.fromkeys([*booking.notes, *notes]))
        # The people whom the policy means are not asked: inform the traveller too.
        writes = [
            *writes,
            *build_message_writes(context.stores, booking, "approver_missing", {"notes": changes["notes"]}),
        ]
    messages = await _build_messages(context, seen, list_people(approval), ASKED)
    return Next(APPROVING, changes, writes=(*writes, *messages), deadline_s=_get_wait_s(context, approval))


async def decide_approval(context: StepContext[Booking], payload: Mapping[str, Any]) -> Next:
    """Apply an approver's decision: `decision`, `decidedBy` and `reason` of the payload.

    Raise `MayNotDecide` unless the approver is asked now, or acts for a person who is, `ApprovalOver` if
    their part is decided or it is too late.
    """
    booking, by = context.item, str(payload.get("decidedBy", ""))
    if await has_left(context.stores, by):
        raise MayNotDecide("The directory has you as inactive: another approver has to decide.")
    before = await _with_new_holders(context, get_approval(booking), by)
    approval = apply_decision(
        before,
        str(payload.get("decision", "")),
        by,
        context.now,
        employee_id=booking.employee_id,
        acting_for=await list_principals(context.stores, by, context.now),
        reason=redact_text(str(payload.get("reason") or "")) or None,
    )
    return await _continue(context, before, approval)


async def reassign_approval(context: StepContext[Booking], payload: Mapping[str, Any]) -> Next:
    """Ask the people whom the directory has now instead of those who have left; not an answer of a person.

    Raise `InvalidRequest`, which changes nothing, if nobody who is asked has left.
    """
    approval = get_approval(context.item)
    changed = await _replace_leavers(context, approval)
    if changed == approval:
        raise InvalidRequest("Nobody who is asked to approve this trip has left the company.")
    return await _keep_waiting(context, approval, changed, "reassigned")


async def expire_approval(context: StepContext[Booking]) -> Next:
    """Escalate the stage at its time, or end it at its deadline as the policy says."""
    approval = get_approval(context.item)
    if approval.escalate_at is not None and context.now < approval.due_at:
        return await _escalate(context, approval)
    ended = apply_deadline(approval, max(context.now, approval.due_at))
    return await _continue(context, approval, ended)


def get_approval(booking: Booking) -> Approval:
    """Return the booking's approval. Raise `InvalidRequest` if it has none."""
    if booking.approval is None:
        raise InvalidRequest("This booking has no approval request.")
    return booking.approval


def build_refusal(approval: Approval) -> Failure:
    """Return the failure of a choice that an approver refused, with the approver's reason."""
    text = "The approver refused the choice." + (f" {approval.reason}" if approval.reason else "")
    return Failure(code=NOT_APPROVED, text=text, remedy="Request a flight inside the policy.")


# --- transitions --------------------------------------------------------------------------------------------


async def _continue(context: StepContext[Booking], before: Approval, approval: Approval) -> Next:
    """Return the transition after a decision: wait on, ask the next stage, buy, or fail the booking."""
    entry = _build_entry(context, before, approval)
    if approval.decision is None:
        new = [each for each in list_people(approval) if each not in list_people(before)]
        seen = context.item.model_copy(update={"approval": approval})
        messages = await _build_messages(context, seen, new, ASKED)
        return Next(
            APPROVING,
            {"approval": approval},
            writes=(entry, *messages),
            deadline_s=_get_wait_s(context, approval),
        )
    if approval.decision == APPROVE:
        return Next("user_selected", {"approval": approval}, writes=(entry,))
    return fail_booking(context, APPROVAL_STEP, build_refusal(approval), audit=(entry,), approval=approval)


async def _escalate(context: StepContext[Booking], approval: Approval) -> Next:
    """Ask the managers of those who have not answered, and the policy's stand-ins; remind the others."""
    booking = context.item
    finder = await open_finder(context.stores, booking.employee_id, TripCortexSettings.load())
    current = await _replace_leavers(context, approval)
    more = {ask.word: await _find_more(finder, ask) for ask in get_open_asks(current)}
    return await _keep_waiting(context, approval, escalate(current, more), "escalated")


async def _find_more(finder: ApproverFinder, ask: ApprovalAsk) -> list[str]:
    """Return whom an escalation asks in addition: stand-ins and managers, or else the travel desk."""
    more = [*ask.stand_ins, *await finder.find_managers(ask.people)]
    return more or [each for each in await finder.find_travel_desk() if each not in ask.people]


async def _keep_waiting(
    context: StepContext[Booking], before: Approval, approval: Approval, outcome: str
) -> Next:
    """Return the transition to the same wait: new people are asked, those who were asked are reminded."""
    asked = list_people(before)
    new = [each for each in list_people(approval) if each not in asked]
    seen = context.item.model_copy(update={"approval": approval})
    entry = build_audit_entry(
        context.stores,
        context.item,
        AuditEvent.user_selection,
        APPROVAL_STEP,
        inputs={"stage": approval.stage, "asked_of": list(asked)},
        outputs={outcome: new},
    )
    messages = await _build_messages(context, seen, new, ASKED)
    if outcome == "escalated":
        kept = [each for each in list_people(approval) if each in asked]
        messages += await _build_messages(context, seen, kept, REMINDED)
    return Next(
        APPROVING,
        {"approval": approval},
        writes=(entry, *messages),
        deadline_s=_get_wait_s(context, approval),
    )


async def _replace_leavers(context: StepContext[Booking], approval: Approval) -> Approval:
    """Return the approval with the current people of each open ask of which somebody has left."""
    staged = to_staged(approval)
    stages = staged.stages[staged.stage :]
    finder = await open_finder(context.stores, context.item.employee_id, TripCortexSettings.load())
    found: dict[str, ApprovalAsk] = {}
    for ask in (each for stage in stages for each in stage.asks if each.decision is None):
        now = await _find_ask(finder, ask)
        if not (left := await list_leavers(context.stores, ask, now)):
            continue
        kept = [each for each in ask.people if each not in left]
        people = kept if kept and not now.is_named else list(dict.fromkeys([*kept, *now.people]))
        found[ask.word] = now.model_copy(update={"people": people, "stand_ins": ask.stand_ins})
    return reassign(staged, found) if found else approval


async def _with_new_holders(context: StepContext[Booking], approval: Approval, by: str) -> Approval:
    """Return the approval with the caller among the people of each open ask whose word means them now.

    So the new holder of a role may decide without waiting for an escalation.
    """
    finder = await open_finder(context.stores, context.item.employee_id, TripCortexSettings.load())
    found: dict[str, ApprovalAsk] = {}
    for ask in get_open_asks(approval):
        if by in (*ask.people, *ask.stand_ins) or by == context.item.employee_id:
            continue
        now = await _find_ask(finder, ask)
        if by in now.people and now.is_named:
            found[ask.word] = ask.model_copy(update={"people": [*ask.people, by]})
    return reassign(approval, found) if found else approval


async def _find_ask(finder: ApproverFinder, ask: ApprovalAsk) -> ApprovalAsk:
    """Return the ask as it is resolved now; unchanged if the traveller alone holds the role now."""
    try:
        return await finder.find_ask(ask.word)
    except RequestRefused:
        return ask


# --- messages and audit -------------------------------------------------------------------------------------


async def _build_messages(
    context: StepContext[Booking], booking: Booking, people: Sequence[str], about: str
) -> tuple[Write[Any], ...]:
    """Return the writes of a message to these people and their delegates: what to decide, until when."""
    if not people:
        return ()
    delegates = await list_delegates(context.stores, people, context.now)
    recipients = dict.fromkeys([*people, *delegates])
    body = _build_body(booking)
    return tuple(
        write
        for each in recipients
        if each != booking.employee_id
        for write in build_notice_writes(
            context.stores,
            build_message(context.stores, EmployeeId(each), about, body, booking.booking_id),
        )
    )


def _build_body(booking: Booking) -> dict[str, Any]:
    """Return what an approver sees: the flight, its price, the breaches with the quoted rules, the stage."""
    option, approval = booking.selected_option, get_approval(booking)
    assert option is not None
    return {
        "employeeId": booking.employee_id,
        "option": option_to_json(option),
        "breaches": [to_json(each) for each in option.breaches],
        "dueAt": approval.due_at.isoformat(),
        "offerEndsAt": option.offer_expires_at.isoformat(),
        "stage": approval.stage + 1,
        "stages": max(len(approval.stages), 1),
        "approvers": [each.word for each in get_open_asks(approval)],
        "priceUsd": str(option.price_usd),
    }


def _build_entry(context: StepContext[Booking], before: Approval, approval: Approval) -> Put[AuditRecord]:
    """Return the audit entry of the new decisions, with the citations of the option's breaches."""
    staged, option = to_staged(approval), context.item.selected_option
    known = {(ask.word, ask.decided_by) for ask in _list_asks(to_staged(before)) if ask.decision}
    new = [ask for ask in _list_asks(staged) if ask.decision and (ask.word, ask.decided_by) not in known]
    return build_audit_entry(
        context.stores,
        context.item,
        AuditEvent.user_selection,
        APPROVAL_STEP,
        inputs={"asked_of": before.asked_of, "stage": before.stage},
        outputs={
            "decision": approval.decision or (new[0].decision if new else None),
            "decided_by": approval.decided_by or (new[0].decided_by if new else None),
            "decisions": [
                {
                    "approver": ask.word,
                    "decision": ask.decision,
                    "decided_by": ask.decided_by,
                    "on_behalf_of": ask.on_behalf_of,
                }
                for ask in new
            ],
            "is_final": approval.decision is not None,
            "cited": [
                each.citation.chunk_id
                for each in (option.breaches if option else [])
                if each.citation is not None
            ],
        },
    )


def _list_asks(staged: Approval) -> Iterable[ApprovalAsk]:
    return (ask for stage in staged.stages for ask in stage.asks)


def _get_wait_s(context: StepContext[Booking], approval: Approval) -> float:
    """Return the seconds until the stage is escalated, or else until its deadline."""
    return max((get_next_time(approval) - context.now).total_seconds(), 0.0)
