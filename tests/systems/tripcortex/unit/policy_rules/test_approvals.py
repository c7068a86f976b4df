"""Tests of approvals: the approver, the deadline, the default; travellers never decide their own trip."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast.core.errors import HoldfastError, InvalidRequest
from tests.cases import all_cases
from tests.systems.tripcortex.unit.policy_rules.trips import POLICY, make_policy
from tripcortex.domain.policy_rules import (
    ApprovalOver,
    MayNotDecide,
    Reason,
    TravelPolicy,
    apply_deadline,
    apply_decision,
    build_approval,
    list_approvers,
)
from tripcortex.model.entities import Approval, Breach

NOW = datetime(2026, 3, 10, 9, tzinfo=UTC)
PEOPLE = {"line-manager": "emp-7"}


def make_breach(reason: Reason = Reason.late_booking, severity: str = "soft") -> Breach:
    return Breach(code=reason, severity=severity, text="Late.", remedy="leave later")


def request_approval(*breaches: Breach, **more: Any) -> Approval:
    """Build the approval of these breaches for emp-42, by default of a late booking."""
    return build_approval(breaches or (make_breach(),), POLICY, "emp-42", NOW, people=PEOPLE, **more)


def test_asks_the_first_approver_in_the_chain() -> None:
    approval = request_approval()
    assert (approval.asked_of, approval.due_at) == ("emp-7", NOW + timedelta(hours=24))
    assert list_approvers(POLICY, "emp-42", PEOPLE) == ("emp-7", "travel-desk")
    # The traveller is skipped.
    assert list_approvers(POLICY, "emp-7", PEOPLE) == ("travel-desk",)


def test_newest_policy_with_approvals_names_the_approver() -> None:
    silent = TravelPolicy.parse({"version": "emea-1"})
    assert list_approvers((silent, POLICY), "emp-42", PEOPLE) == ("emp-7", "travel-desk")
    assert (
        build_approval([make_breach()], (silent, POLICY), "emp-42", NOW, people=PEOPLE).at_deadline
        == "approve"
    )


def test_rejects_approval_of_a_hard_stop() -> None:
    with pytest.raises(InvalidRequest, match="Hard stops cannot be approved: cabin_above_policy"):
        request_approval(make_breach(), make_breach(Reason.cabin_above_policy, "hard"))


@all_cases(
    ("reasons", "confidence", "at_deadline", "hours"),
    [
        ([Reason.late_booking], "high", "approve", 24),
        ([Reason.fare_above_cap], "high", "refuse", 48),
        ([Reason.late_booking, Reason.fare_above_cap], "high", "refuse", 48),
        ([Reason.late_booking], "low", "refuse", 48),
        ([Reason.late_booking], "none", "refuse", 48),
    ],
)
def test_silence_approves_only_what_the_policy_allows(
    reasons: list[Reason], confidence: str, at_deadline: str, hours: int
) -> None:
    approval = request_approval(*map(make_breach, reasons), confidence=confidence)
    assert (approval.at_deadline, approval.due_at) == (at_deadline, NOW + timedelta(hours=hours))
    ended = apply_deadline(approval, approval.due_at)
    assert (ended.decision, ended.decided_by) == (at_deadline, "deadline")


def test_silence_decides_nothing_before_the_deadline() -> None:
    approval = request_approval()
    assert apply_deadline(approval, approval.due_at - timedelta(seconds=1)) == approval


def test_silence_refuses_by_default() -> None:
    assert build_approval([make_breach()], make_policy(approval={}), "emp-42", NOW).at_deadline == "refuse"
    assert build_approval([make_breach()], None, "emp-42", NOW).at_deadline == "refuse"


@all_cases("by", ["emp-7", "travel-desk"])
@all_cases("decision", ["approve", "refuse"])
def test_anyone_in_the_chain_may_decide(by: str, decision: str) -> None:
    chain = list_approvers(POLICY, "emp-42", PEOPLE)
    after = apply_decision(
        request_approval(), decision, by, NOW, employee_id="emp-42", chain=chain, reason="The customer asked."
    )
    assert (after.decision, after.decided_by, after.decided_at) == (decision, by, NOW)
    assert after.reason == "The customer asked."
    # The deadline no longer changes anything.
    assert apply_deadline(after, after.due_at) == after


DECIDED = apply_decision(request_approval(), "refuse", "emp-7", NOW, employee_id="emp-42")
CHAIN = ("emp-42", "emp-7")
LATE = NOW + timedelta(hours=24)


@all_cases(
    ("approval", "decision", "by", "at", "error", "reason"),
    [
        (request_approval(), "approve", "emp-42", NOW, MayNotDecide, None),
        (request_approval(), "approve", "emp-9", NOW, MayNotDecide, None),
        (request_approval(), "approve", "", NOW, MayNotDecide, None),
        (request_approval(), "maybe", "emp-7", NOW, InvalidRequest, "'maybe': expected approve or refuse"),
        (request_approval(), "approve", "emp-7", LATE, ApprovalOver, "passed at 2026-03-11T09:00:00"),
        (DECIDED, "approve", "emp-7", NOW, ApprovalOver, "already decided"),
    ],
)
def test_rejects_a_strangers_an_unknown_a_late_and_a_second_decision(
    approval: Approval, decision: str, by: str, at: datetime, error: type[HoldfastError], reason: str | None
) -> None:
    with pytest.raises(error, match=reason) as refused:
        apply_decision(approval, decision, by, at, employee_id="emp-42", chain=CHAIN)
    assert getattr(refused.value, "decision", None) == approval.decision


@all_cases("people", [{}, {"travel-desk": "emp-9"}])
def test_silence_refuses_when_the_role_is_vacant(people: dict[str, str]) -> None:
    approval = build_approval([make_breach()], POLICY, "emp-42", NOW, people=people)
    assert (approval.asked_of, approval.at_deadline) == ("line-manager", "refuse")
    assert apply_deadline(approval, approval.due_at).decision == "refuse"


def test_silence_refuses_if_the_named_approver_is_not_a_known_employee() -> None:
    named = make_policy(approval={"approver": "emp-7", "at_deadline": "approve"})
    assert build_approval([make_breach()], named, "emp-42", NOW, people=PEOPLE).at_deadline == "approve"
    assert build_approval([make_breach()], named, "emp-42", NOW).at_deadline == "refuse"
