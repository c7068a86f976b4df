"""Who approves, until when, what silence means, and that nobody approves a trip of their own."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast.core.errors import InvalidRequest, RequestRefused
from tests.unit.tripcortex.rules.trips import POLICY, policy
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


def breach(reason: Reason = Reason.late_booking, severity: str = "soft") -> Breach:
    return Breach(code=reason, severity=severity, text="Late.", remedy="leave later")


def asked(*breaches: Breach, **more: Any) -> Approval:
    return build_approval(breaches or (breach(),), POLICY, "emp-42", NOW, people=PEOPLE, **more)


def test_the_first_of_the_chain_is_asked_until_the_deadline() -> None:
    approval = asked()

    assert (approval.asked_of, approval.due_at) == ("emp-7", NOW + timedelta(hours=24))
    assert list_approvers(POLICY, "emp-42", PEOPLE) == ("emp-7", "travel-desk")


def test_of_several_policies_the_newest_that_speaks_of_approvals_says_who_is_asked() -> None:
    silent = TravelPolicy.parse({"version": "emea-1"})

    assert list_approvers((silent, POLICY), "emp-42", PEOPLE) == ("emp-7", "travel-desk")
    assert build_approval([breach()], (silent, POLICY), "emp-42", NOW, people=PEOPLE).at_deadline == "approve"


def test_the_traveller_is_passed_over() -> None:
    assert list_approvers(POLICY, "emp-7", PEOPLE) == ("travel-desk",)


def test_where_only_the_traveller_could_approve_it_is_refused() -> None:
    alone = policy(approval={"approver": "line-manager"})

    with pytest.raises(RequestRefused, match="may not approve their own trip"):
        build_approval([breach()], alone, "emp-7", NOW, people=PEOPLE)


def test_a_hard_stop_cannot_be_approved() -> None:
    with pytest.raises(InvalidRequest, match="Hard stops cannot be approved: cabin_above_policy"):
        asked(breach(), breach(Reason.cabin_above_policy, "hard"))


@pytest.mark.parametrize(
    ("reasons", "confidence", "at_deadline", "hours"),
    [
        ([Reason.late_booking], "high", "approve", 24),
        ([Reason.fare_above_cap], "high", "refuse", 48),
        ([Reason.late_booking, Reason.fare_above_cap], "high", "refuse", 48),
        ([Reason.late_booking], "low", "refuse", 48),
        ([Reason.late_booking], "none", "refuse", 48),
    ],
)
def test_silence_approves_only_what_the_policy_lets_it(
    reasons: list[Reason], confidence: str, at_deadline: str, hours: int
) -> None:
    approval = asked(*map(breach, reasons), confidence=confidence)
    assert (approval.at_deadline, approval.due_at) == (at_deadline, NOW + timedelta(hours=hours))

    ended = apply_deadline(approval, approval.due_at)
    assert (ended.decision, ended.decided_by) == (at_deadline, "deadline")


def test_before_its_deadline_silence_decides_nothing() -> None:
    approval = asked()

    assert apply_deadline(approval, approval.due_at - timedelta(seconds=1)) == approval


def test_a_policy_that_says_nothing_of_silence_refuses_by_it() -> None:
    assert build_approval([breach()], policy(approval={}), "emp-42", NOW).at_deadline == "refuse"
    assert build_approval([breach()], None, "emp-42", NOW).at_deadline == "refuse"


@pytest.mark.parametrize("by", ["emp-7", "travel-desk"])
@pytest.mark.parametrize("decision", ["approve", "refuse"])
def test_whoever_is_in_the_chain_decides(by: str, decision: str) -> None:
    chain = list_approvers(POLICY, "emp-42", PEOPLE)

    after = apply_decision(
        asked(), decision, by, NOW, employee_id="emp-42", chain=chain, reason="The customer asked."
    )
    assert (after.decision, after.decided_by, after.decided_at) == (decision, by, NOW)
    assert after.reason == "The customer asked."
    # The deadline changes nothing any more.
    assert apply_deadline(after, after.due_at) == after


@pytest.mark.parametrize("by", ["emp-42", "emp-9", ""])
def test_nobody_else_decides_and_the_traveller_never(by: str) -> None:
    with pytest.raises(MayNotDecide):
        apply_decision(asked(), "approve", by, NOW, employee_id="emp-42", chain=("emp-42", "emp-7"))


def test_a_decision_is_final() -> None:
    after = apply_decision(asked(), "refuse", "emp-7", NOW, employee_id="emp-42")

    with pytest.raises(ApprovalOver, match="already decided") as refused:
        apply_decision(after, "approve", "emp-7", NOW, employee_id="emp-42")
    assert refused.value.decision == "refuse"


def test_after_the_deadline_it_is_too_late_to_decide() -> None:
    approval = asked()

    with pytest.raises(ApprovalOver, match="The deadline passed at 2026-03-11T09:00:00"):
        apply_decision(approval, "approve", "emp-7", approval.due_at, employee_id="emp-42")


def test_a_word_that_is_no_decision_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="Invalid decision 'maybe': expected approve or refuse"):
        apply_decision(asked(), "maybe", "emp-7", NOW, employee_id="emp-42")


@pytest.mark.parametrize("people", [{}, {"travel-desk": "emp-9"}])
def test_where_nobody_is_set_for_the_role_that_is_asked_silence_refuses(people: dict[str, str]) -> None:
    approval = build_approval([breach()], POLICY, "emp-42", NOW, people=people)

    assert (approval.asked_of, approval.at_deadline) == ("line-manager", "refuse")
    assert apply_deadline(approval, approval.due_at).decision == "refuse"


def test_an_employee_whom_the_policy_names_is_set_where_people_name_them() -> None:
    named = policy(approval={"approver": "emp-7", "at_deadline": "approve"})

    assert build_approval([breach()], named, "emp-42", NOW, people=PEOPLE).at_deadline == "approve"
    assert build_approval([breach()], named, "emp-42", NOW).at_deadline == "refuse"
