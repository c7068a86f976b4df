"""Approvals of soft breaches: who is asked, until when, and what happens without an answer. Pure functions.

    build_approval → (an approver: apply_decision | the deadline: apply_deadline) → Approval with its decision

At the deadline a soft breach is approved if the policy says so. It is refused if its reason needs an explicit
approval, if the passages match only roughly, or if no person is assigned to the role: a person who was never
notified has not agreed. Travellers cannot decide on their own trips. The flow stores the approval with the
booking and writes each decision with its citations to the audit log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

from holdfast.core.errors import AccessRefused, Conflict, InvalidRequest, RequestRefused
from tripcortex.domain.policy_rules.travel_policy import (
    STRICTEST,
    ApprovalRules,
    Policies,
    find_newest_with,
    to_policies,
)
from tripcortex.model.entities import Approval, Breach

APPROVE: Final = "approve"
REFUSE: Final = "refuse"
DECISIONS: Final = (APPROVE, REFUSE)
# `decided_by` of an approval that the deadline decided.
DEADLINE: Final = "deadline"
MAX_REASON_CHARS: Final = 500
_NO_PEOPLE: Final[Mapping[str, str]] = MappingProxyType({})


class MayNotDecide(AccessRefused, label="MayNotDecide"):
    """The person may not decide: the traveller, or a person outside the chain of approvers."""

    http_status = 403

    def __init__(self, message: str) -> None:
        super().__init__("MayNotDecide", message)


class ApprovalOver(Conflict, label="ApprovalOver"):
    """The approval is already decided or past its deadline.

    `decision` is None until the deadline has been processed.
    """

    http_status = 409

    def __init__(self, message: str, decision: str | None) -> None:
        super().__init__(message)
        self.decision = decision


def list_approvers(
    policies: Policies, employee_id: str, people: Mapping[str, str] = _NO_PEOPLE
) -> tuple[str, ...]:
    """Return the people who may decide, in the order in which they are asked, without the traveller.

    `people` maps roles to people.
    """
    named = [people.get(each, each) for each in _get_approval_rules(policies).approver]
    return tuple(dict.fromkeys(each for each in named if each != employee_id))


def is_assigned(approver: str, people: Mapping[str, str]) -> bool:
    """Return whether `people` assigns a role to this person. A role without a person cannot be notified."""
    return approver in people.values()


def build_approval(
    breaches: Sequence[Breach],
    policies: Policies,
    employee_id: str,
    now: datetime,
    *,
    people: Mapping[str, str] = _NO_PEOPLE,
    confidence: str = "high",
) -> Approval:
    """Build the approval that the first approver of the chain is asked for.

    The deadline approves only if `people` names that approver. Raise `InvalidRequest` for a hard breach, and
    `RequestRefused` if the traveller is the only approver.
    """
    if hard := [breach.code for breach in breaches if breach.severity == "hard"]:
        raise InvalidRequest(
            f"Hard stops cannot be approved: {', '.join(hard)}. Choose an option that complies."
        )
    chain = list_approvers(policies, employee_id, people)
    if not chain:
        raise RequestRefused(
            "NobodyMayApprove",
            "The only approver is the traveller, who may not approve their own trip. Add another approver to "
            "the policy, or choose a flight that complies.",
        )
    rules = _get_approval_rules(policies)
    is_expressly = any(breach.code in rules.must_be_given for breach in breaches)
    is_heard = is_assigned(chain[0], people) and confidence == "high"
    is_soft = rules.at_deadline == APPROVE and not is_expressly and is_heard
    hours = rules.soft_deadline_hours if is_soft else rules.hard_deadline_hours
    return Approval(
        asked_of=chain[0],
        due_at=now + timedelta(hours=hours),
        at_deadline=APPROVE if is_soft else REFUSE,
    )


def apply_decision(
    approval: Approval,
    decision: str,
    by: str,
    now: datetime,
    *,
    employee_id: str,
    chain: Sequence[str] = (),
    reason: str | None = None,
) -> Approval:
    """Return the approval with a person's decision.

    `chain` are the people who may decide in addition to the one who was asked. Raise `MayNotDecide` for the
    traveller or an outsider, `ApprovalOver` if it is decided or past its deadline.
    """
    if decision not in DECISIONS:
        raise InvalidRequest(f"Invalid decision {decision!r:.40}: expected {' or '.join(DECISIONS)}.")
    if by == employee_id:
        raise MayNotDecide("Travellers may not decide on their own trips: another approver has to.")
    if by != approval.asked_of and by not in chain:
        raise MayNotDecide(
            "You are not an approver of this trip: only an approver named in the policy decides."
        )
    if approval.decision is not None:
        raise ApprovalOver(
            f"This approval is already decided ({approval.decision}). Request the trip again to change it.",
            approval.decision,
        )
    if now >= approval.due_at:
        raise ApprovalOver(
            f"The deadline passed at {approval.due_at.isoformat()}: the decision is {approval.at_deadline}.",
            None,
        )
    return _set_decision(approval, decision, by, now, reason)


def apply_deadline(approval: Approval, now: datetime) -> Approval:
    """Return the approval as the deadline decides it; unchanged if it is decided or not yet due."""
    if approval.decision is not None or now < approval.due_at:
        return approval
    return _set_decision(approval, approval.at_deadline, DEADLINE, now, "No approver answered in time.")


def _get_approval_rules(policies: Policies) -> ApprovalRules:
    """Return the approval rules of the newest policy that has any.

    The chains of several policies are not combined.
    """
    return find_newest_with(to_policies(policies) or (STRICTEST,), "approval").approval


def _set_decision(approval: Approval, decision: str, by: str, now: datetime, reason: str | None) -> Approval:
    """Return a copy of the approval with the decision; the reason is cut to 500 characters."""
    return approval.model_copy(
        update={
            "decision": decision,
            "decided_by": by,
            "decided_at": now,
            "reason": reason[:MAX_REASON_CHARS] if reason else None,
        }
    )
