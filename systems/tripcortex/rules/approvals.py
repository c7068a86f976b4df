"""Who lets a soft breach pass, until when, and what becomes of it when nobody answers.

    approval_asked → (a person: decided | the deadline: decided_by_time) → Approval with its decision

Soft breaches are let pass at the deadline where the policy says so; a reason that must be given expressly is refused by
silence, and so is everything while the passages match only roughly, or while nobody is set for the role that is asked: who
was never told has not agreed. Nobody decides on a trip of their own. The flow keeps the approval on the booking and writes
each decision, with what was cited, into the audit log.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

from holdfast.errors import AccessRefused, Conflict, InvalidRequest, RequestRefused
from tripcortex.model import Approval, Breach
from tripcortex.rules.policy import STRICTEST, ApprovalRules, Policies, each_of, newest_saying

APPROVE: Final = "approve"
REFUSE: Final = "refuse"
DECISIONS: Final = (APPROVE, REFUSE)
# Who decided where nobody did.
DEADLINE: Final = "deadline"
REASON_CHARS_MAX: Final = 500
_NOBODY: Final[Mapping[str, str]] = MappingProxyType({})


class MayNotDecide(AccessRefused, label="MayNotDecide"):
    """Somebody decides who is not asked: the traveller, or a person outside the chain of approvers."""

    http_status = 403

    def __init__(self, message: str) -> None:
        super().__init__("MayNotDecide", message)


class ApprovalOver(Conflict, label="ApprovalOver"):
    """It is decided already, or its deadline is past. `decision` is what holds; None until the deadline has been acted on."""

    http_status = 409

    def __init__(self, message: str, decision: str | None) -> None:
        super().__init__(message)
        self.decision = decision


def approvers(policies: Policies, employee_id: str, people: Mapping[str, str] = _NOBODY) -> tuple[str, ...]:
    """Who may decide, in the order in which they are asked. `people` says who has a role; never the traveller."""
    named = [people.get(each, each) for each in _rules(policies).approver]
    return tuple(dict.fromkeys(each for each in named if each != employee_id))


def is_set(asked_of: str, people: Mapping[str, str]) -> bool:
    """Whether the one who is asked is a person: `people` names them. A role that nobody has hears nothing."""
    return asked_of in people.values()


def approval_asked(
    breaches: Sequence[Breach],
    policies: Policies,
    employee_id: str,
    now: datetime,
    *,
    people: Mapping[str, str] = _NOBODY,
    confidence: str = "high",
) -> Approval:
    """What is asked of the first of the chain. Silence approves only where `people` names that one."""
    if hard := [breach.code for breach in breaches if breach.severity == "hard"]:
        raise InvalidRequest(
            f"Nobody can approve {', '.join(hard)}: it is a hard stop. Choose what complies."
        )
    chain = approvers(policies, employee_id, people)
    if not chain:
        raise RequestRefused(
            "NobodyMayApprove",
            "The only approver is the traveller, and nobody approves a trip of their own: add another approver to the "
            "policy, or choose a flight that complies.",
        )
    rules = _rules(policies)
    is_expressly = any(breach.code in rules.must_be_given for breach in breaches)
    is_heard = is_set(chain[0], people) and confidence == "high"
    is_soft = rules.at_deadline == APPROVE and not is_expressly and is_heard
    hours = rules.soft_deadline_hours if is_soft else rules.hard_deadline_hours
    return Approval(
        asked_of=chain[0],
        due_at=now + timedelta(hours=hours),
        at_deadline=APPROVE if is_soft else REFUSE,
    )


def decided(
    approval: Approval,
    decision: str,
    by: str,
    now: datetime,
    *,
    employee_id: str,
    chain: Sequence[str] = (),
    reason: str | None = None,
) -> Approval:
    """The approval with a person's decision. `chain`: who may decide beside the one who was asked."""
    if decision not in DECISIONS:
        raise InvalidRequest(f"{decision!r:.40} is no decision: write {' or '.join(DECISIONS)}.")
    if by == employee_id:
        raise MayNotDecide("Nobody decides on a trip of their own: somebody else of the approvers has to.")
    if by != approval.asked_of and by not in chain:
        raise MayNotDecide("This approval is asked of somebody else: only an approver of the policy decides.")
    if approval.decision is not None:
        raise ApprovalOver(
            f"This is decided already ({approval.decision}): ask for the trip anew to change it.",
            approval.decision,
        )
    if now >= approval.due_at:
        raise ApprovalOver(
            f"The time to decide ended at {approval.due_at.isoformat()}: {approval.at_deadline} holds.", None
        )
    return _with(approval, decision, by, now, reason)


def decided_by_time(approval: Approval, now: datetime) -> Approval:
    """The approval as silence decides it; as it is, where it is decided or not yet due."""
    if approval.decision is not None or now < approval.due_at:
        return approval
    return _with(approval, approval.at_deadline, DEADLINE, now, "Nobody answered in time.")


def _rules(policies: Policies) -> ApprovalRules:
    """Of several policies those of the newest that says anything of approvals: two chains would be none."""
    return newest_saying(each_of(policies) or (STRICTEST,), "approval").approval


def _with(approval: Approval, decision: str, by: str, now: datetime, reason: str | None) -> Approval:
    return approval.model_copy(
        update={
            "decision": decision,
            "decided_by": by,
            "decided_at": now,
            "reason": reason[:REASON_CHARS_MAX] if reason else None,
        }
    )
