"""The person in the middle: an option is chosen, and where it is against the policy somebody else lets it pass or not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from holdfast import Put
from holdfast.errors import InvalidRequest
from holdfast.flows import Next, Run
from tripcortex.auditing import audited, told
from tripcortex.live.notices import message_to, notice_writes
from tripcortex.model import Approval, AuditEvent, AuditRecord, Booking, EmployeeId, Failure, FlightOption
from tripcortex.rules.approvals import APPROVE, approval_asked, approvers, decided, decided_by_time, is_set
from tripcortex.settings import TripCortexSettings
from tripcortex.steps.ending import failed, telling
from tripcortex.steps.retrieving import policy_of
from tripcortex.steps.showing import shown, shown_option

STEP: Final = "Choice"
APPROVAL: Final = "Approval"
NOT_APPROVED: Final = "not_approved"


async def choose(run: Run[Booking], given: Mapping[str, Any]) -> Next:
    """`optionId` is one of those that were offered; any other leaves everything as it is."""
    booking = run.item
    option = _offered(booking, given)
    if option.offer_expires_at <= run.now:
        raise InvalidRequest("The portal does not hold this offer any longer: choose another, or cancel.")
    entry = audited(
        run.stores,
        booking,
        AuditEvent.user_selection,
        STEP,
        given={"options": len(booking.flight_options)},
        gave={
            "option": option.option_id,
            "carrier": option.carrier,
            "price_usd": str(option.price_usd),
            "breaches": [each.code for each in option.breaches],
        },
    )
    if not option.needs_approval:
        return Next("user_selected", {"selected_option": option}, writes=(entry,))
    return await _asking(run, option, entry)


async def _asking(run: Run[Booking], option: FlightOption, entry: Put[AuditRecord]) -> Next:
    """The approver has the policy's time, also where the offer ends before: booking then searches for the same flights."""
    booking, people = run.item, TripCortexSettings.load().people
    approval = approval_asked(
        option.breaches,
        await policy_of(run.stores),
        booking.employee_id,
        run.now,
        people=people,
        confidence=booking.policy_confidence or "none",
    )
    asked = {
        "employeeId": booking.employee_id,
        "option": shown_option(option),
        "breaches": [shown(each) for each in option.breaches],
        "dueAt": approval.due_at.isoformat(),
        "offerEndsAt": option.offer_expires_at.isoformat(),
    }
    to = EmployeeId(approval.asked_of)
    messages = notice_writes(run.stores, message_to(run.stores, to, "approval", asked, booking.booking_id))
    changes: dict[str, Any] = {"selected_option": option, "approval": approval}
    if not is_set(approval.asked_of, people):
        changes["notes"] = [*booking.notes, unset_note(approval)]
        # Nobody hears a role that nobody has, so the traveller is told as well.
        messages += telling(run.stores, booking, "approver_missing", {"notes": changes["notes"]})
    return Next(
        "approving",
        changes,
        writes=(entry, *messages),
        deadline_s=(approval.due_at - run.now).total_seconds(),
    )


def unset_note(approval: Approval) -> str:
    return (
        f"Nobody is set for the approver “{approval.asked_of}”, so silence refuses this choice: have an operator set "
        "TRIPCORTEX_APPROVERS, or ask for a flight inside the policy."
    )


async def decide(run: Run[Booking], given: Mapping[str, Any]) -> Next:
    """An approver's decision, by one of the policy's chain and never by the traveller."""
    booking, people = run.item, TripCortexSettings.load().people
    approval = decided(
        _asked(booking),
        str(given.get("decision", "")),
        str(given.get("decidedBy", "")),
        run.now,
        employee_id=booking.employee_id,
        chain=approvers(await policy_of(run.stores), booking.employee_id, people),
        reason=told(str(given.get("reason") or "")) or None,
    )
    return _approved(run, approval)


def approval_due(run: Run[Booking]) -> Next:
    """Nobody answered: silence decides as the policy says."""
    approval = _asked(run.item)
    return _approved(run, decided_by_time(approval, max(run.now, approval.due_at)))


def refusal_of(approval: Approval) -> Failure:
    text = "The approver did not let the choice pass." + (f" {approval.reason}" if approval.reason else "")
    return Failure(code=NOT_APPROVED, text=text, remedy="Ask again, for a flight inside the policy.")


def _approved(run: Run[Booking], approval: Approval) -> Next:
    entry = _entry(run, approval)
    if approval.decision == APPROVE:
        return Next("user_selected", {"approval": approval}, writes=(entry,))
    return failed(run, APPROVAL, refusal_of(approval), audit=(entry,), approval=approval)


def _entry(run: Run[Booking], approval: Approval) -> Put[AuditRecord]:
    return audited(
        run.stores,
        run.item,
        AuditEvent.user_selection,
        APPROVAL,
        given={"asked_of": approval.asked_of},
        gave={
            "decision": approval.decision,
            "decided_by": approval.decided_by,
            "cited": [
                each.citation.chunk_id
                for each in (run.item.selected_option.breaches if run.item.selected_option else [])
                if each.citation is not None
            ],
        },
    )


def _offered(booking: Booking, given: Mapping[str, Any]) -> FlightOption:
    for option in booking.flight_options:
        if option.option_id == str(given.get("optionId")):
            return option
    offered = ", ".join(each.option_id for each in booking.flight_options)
    raise InvalidRequest(f"This option was not offered: choose one of {offered}.")


def _asked(booking: Booking) -> Approval:
    if booking.approval is None:
        raise InvalidRequest("Nobody was asked to approve this booking.")
    return booking.approval
