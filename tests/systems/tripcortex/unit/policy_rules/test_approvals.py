"""Tests of approvals: stages, joint decisions, deadlines; travellers never decide their own trip."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
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
    escalate,
    list_words,
    split_stages,
)
from tripcortex.domain.policy_rules.approvals import (
    covers,
    get_open_asks,
    list_default_words,
    list_people,
    may_decide,
    reassign,
)
from tripcortex.model.entities import Approval, ApprovalAsk, Breach

NOW = datetime(2026, 3, 10, 9, tzinfo=UTC)
HOUR = timedelta(hours=1)
MANAGER = ApprovalAsk(word="line-manager", people=["emp-7"], stand_ins=["emp-9"])
FINANCE = ApprovalAsk(word="Finance", people=["emp-20", "emp-21"])
VP = ApprovalAsk(word="VP", people=["emp-3"])


def make_breach(
    reason: Reason = Reason.late_booking, severity: str = "soft", approvers: Sequence[str] = ()
) -> Breach:
    return Breach(
        code=reason, severity=severity, text="Late.", remedy="leave later", approvers=list(approvers)
    )


def request_approval(
    *breaches: Breach, stages: Sequence[Sequence[ApprovalAsk]] = ((MANAGER,),), **more: Any
) -> Approval:
    """Build the approval of these breaches, by default of a late booking by the manager."""
    return build_approval(breaches or (make_breach(),), more.pop("policy", POLICY), stages, NOW, **more)


def decide(
    approval: Approval, by: str, decision: str = "approve", at: datetime = NOW, **more: Any
) -> Approval:
    return apply_decision(approval, decision, by, at, employee_id="emp-42", **more)


# --- who is asked -------------------------------------------------------------------------------------------


def test_collects_the_words_of_all_breaches_once_and_in_order() -> None:
    breaches = [
        make_breach(approvers=["L1 manager"]),
        make_breach(Reason.fare_above_cap, approvers=["L1 manager", "Finance"]),
    ]
    assert list_words(breaches) == ("L1 manager", "Finance")
    assert list_words([make_breach()]) == ()
    assert list_default_words((TravelPolicy.parse({"version": "emea-1"}), POLICY)) == (
        "line-manager",
        "travel-desk",
    )


@all_cases(
    ("words", "order", "stages"),
    [
        (["L1 manager", "Finance"], "sequential", (("L1 manager",), ("Finance",))),
        (["L1 manager", "Finance"], "joint", (("L1 manager", "Finance"),)),
        (["L1 manager and Finance"], "sequential", (("L1 manager", "Finance"),)),
        (["L1 manager, and the CFO"], "sequential", (("L1 manager", "the CFO"),)),
        (["Vice President, Finance"], "sequential", (("Vice President, Finance",),)),
        (["L1 manager, then Finance"], "joint", (("L1 manager",), ("Finance",))),
        (["L1 → Finance & Legal → Board"], "sequential", (("L1",), ("Finance", "Legal"), ("Board",))),
        (["VP (L3+)"], "sequential", (("VP (L3+)",),)),
        (["VP and above"], "sequential", (("VP and above",),)),
        (["CFO or COO"], "sequential", (("CFO or COO",),)),
        (["Research and Development", "VP"], "joint", (("Research and Development", "VP"),)),
    ],
)
def test_stages_follow_the_words_of_the_policy(
    words: list[str], order: str, stages: tuple[tuple[str, ...], ...]
) -> None:
    assert split_stages(words, order, known=["research and development"]) == stages


def test_first_stage_is_asked_first() -> None:
    approval = request_approval(stages=((MANAGER, VP), (FINANCE,)))
    assert (approval.asked_of, approval.due_at) == ("emp-7", NOW + 24 * HOUR)
    assert list_people(approval) == ("emp-7", "emp-3")
    assert may_decide(approval, "emp-9") and not may_decide(approval, "emp-20")
    assert may_decide(approval, "emp-50", ["emp-3"])


def test_rejects_approval_of_a_hard_stop() -> None:
    with pytest.raises(InvalidRequest, match="Hard stops cannot be approved: cabin_above_policy"):
        request_approval(make_breach(), make_breach(Reason.cabin_above_policy, "hard"))


# --- decisions ----------------------------------------------------------------------------------------------


def test_joint_stage_ends_when_all_have_approved() -> None:
    approval = request_approval(stages=((MANAGER, FINANCE), (VP,)))
    one = decide(approval, "emp-21", at=NOW + HOUR)
    assert (one.decision, one.stage, list_people(one)) == (None, 0, ("emp-7",))
    # The deadline of the stage stays.
    assert one.due_at == approval.due_at
    both = decide(one, "emp-7", at=NOW + 2 * HOUR)
    assert (both.decision, both.stage, both.asked_of) == (None, 1, "emp-3")
    assert both.due_at == NOW + 26 * HOUR
    done = decide(both, "emp-3", at=NOW + 3 * HOUR, reason="The customer asked.")
    assert (done.decision, done.decided_by, done.reason) == ("approve", "emp-3", "The customer asked.")
    assert [ask.decided_by for stage in done.stages for ask in stage.asks] == ["emp-7", "emp-21", "emp-3"]


def test_one_refusal_ends_every_stage() -> None:
    refused = decide(request_approval(stages=((MANAGER, FINANCE), (VP,))), "emp-20", "refuse", reason="No.")
    assert (refused.decision, refused.decided_by, refused.reason) == ("refuse", "emp-20", "No.")
    assert get_open_asks(refused) == () and list_people(refused) == ()
    with pytest.raises(ApprovalOver):
        decide(refused, "emp-7")


def test_person_decides_once_for_every_word_that_means_them() -> None:
    both = ApprovalAsk(word="Department head", people=["emp-7"])
    later = ApprovalAsk(word="VP", people=["emp-3", "emp-7"])
    done = decide(request_approval(stages=((MANAGER, both), (later,))), "emp-7")
    assert done.decision == "approve"
    assert done.stages[1].asks[0].reason == "Approved already as line-manager."


def test_first_of_principal_and_delegate_counts() -> None:
    approval = request_approval(stages=((MANAGER,), (FINANCE,)))
    by_delegate = decide(approval, "emp-8", acting_for=["emp-7"])
    [ask] = by_delegate.stages[0].asks
    assert (ask.decided_by, ask.on_behalf_of) == ("emp-8", "emp-7")
    joint = request_approval(stages=((MANAGER, FINANCE),))
    once = decide(joint, "emp-8", acting_for=["emp-7"])
    with pytest.raises(ApprovalOver, match="already decided .approve, by emp-8."):
        decide(once, "emp-7", "refuse")


@all_cases("by", ["emp-7", "emp-9"])
@all_cases("decision", ["approve", "refuse"])
def test_stand_ins_may_decide_too(by: str, decision: str) -> None:
    after = decide(request_approval(), by, decision)
    assert (after.decision, after.decided_by, after.decided_at) == (decision, by, NOW)
    # The deadline no longer changes anything.
    assert apply_deadline(after, after.due_at) == after


DECIDED = decide(request_approval(), "emp-7", "refuse")
LATE = NOW + 24 * HOUR


@all_cases(
    ("approval", "decision", "by", "at", "error", "reason"),
    [
        (request_approval(), "approve", "emp-42", NOW, MayNotDecide, None),
        (request_approval(), "approve", "emp-50", NOW, MayNotDecide, None),
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
        decide(approval, by, decision, at)
    assert getattr(refused.value, "decision", None) == approval.decision


def test_traveller_never_decides_even_as_a_delegate_or_their_delegate() -> None:
    own = request_approval(stages=((ApprovalAsk(word="Finance", people=["emp-42", "emp-20"]),),))
    with pytest.raises(MayNotDecide):
        decide(own, "emp-42", acting_for=["emp-20"])
    with pytest.raises(MayNotDecide):
        decide(own, "emp-8", acting_for=["emp-42"])


# --- deadlines ----------------------------------------------------------------------------------------------


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
    assert (approval.at_deadline, approval.due_at) == (at_deadline, NOW + hours * HOUR)
    ended = apply_deadline(approval, approval.due_at)
    assert (ended.decision, ended.decided_by) == (at_deadline, "deadline")


def test_silence_decides_nothing_before_the_deadline() -> None:
    approval = request_approval()
    assert apply_deadline(approval, approval.due_at - timedelta(seconds=1)) == approval


def test_silence_approves_its_own_stage_alone() -> None:
    approval = request_approval(stages=((MANAGER,), (FINANCE,)))
    after = apply_deadline(approval, approval.due_at)
    assert (after.decision, after.stage, after.due_at) == (None, 1, approval.due_at + 24 * HOUR)
    assert list_people(after) == ("emp-20", "emp-21")


def test_silence_refuses_by_default() -> None:
    for policy in (make_policy(approval={}), None):
        assert request_approval(policy=policy).at_deadline == "refuse"


def test_silence_refuses_if_a_word_has_no_person() -> None:
    vacant = ApprovalAsk(word="line-manager", people=["emp-9"], is_named=False)
    approval = request_approval(stages=((vacant,),))
    assert approval.at_deadline == "refuse"
    assert apply_deadline(approval, approval.due_at).decision == "refuse"


def test_escalation_adds_people_once_and_keeps_the_deadline() -> None:
    approval = request_approval(stages=((MANAGER, FINANCE),), escalate_percent=50)
    assert approval.escalate_at == NOW + 12 * HOUR
    approval = decide(approval, "emp-20")
    after = escalate(approval, {"line-manager": ["emp-3", "emp-7"], "Finance": ["emp-1"]})
    assert (after.escalate_at, after.due_at) == (None, approval.due_at)
    assert [ask.people for ask in after.stages[0].asks] == [["emp-7", "emp-3"], ["emp-20", "emp-21"]]
    assert decide(after, "emp-3").decision == "approve"


def test_each_stage_is_escalated_at_its_own_time() -> None:
    approval = request_approval(stages=((MANAGER,), (FINANCE,)), escalate_percent=50)
    following = decide(escalate(approval, {}), "emp-7", at=NOW + 20 * HOUR)
    assert following.escalate_at == NOW + 32 * HOUR


def test_replaces_people_in_open_asks_only() -> None:
    approval = decide(request_approval(stages=((MANAGER, FINANCE), (VP,))), "emp-20")
    new = {ask.word: ask.model_copy(update={"people": ["emp-99"]}) for ask in (MANAGER, FINANCE, VP)}
    after = reassign(approval, new)
    found = [ask.people for stage in after.stages for ask in stage.asks]
    assert found == [["emp-99"], ["emp-20", "emp-21"], ["emp-99"]] and after.asked_of == "emp-99"


# --- other versions and prices ------------------------------------------------------------------------------


def test_approval_of_version_0_2_is_one_stage_with_one_person() -> None:
    old = Approval(asked_of="emp-7", due_at=LATE, at_deadline="approve")
    assert list_people(old) == ("emp-7",) and may_decide(old, "emp-7")
    assert decide(old, "emp-7").decision == "approve"
    assert apply_deadline(old, LATE).decision == "approve"
    assert covers(decide(old, "emp-7"), [make_breach()])


def test_approval_covers_its_breaches_and_approvers_only() -> None:
    late = make_breach(approvers=["L1 manager"])
    ask = ApprovalAsk(word="L1 manager", people=["emp-7"])
    given = decide(request_approval(late, stages=((ask,),), price_usd=Decimal(400)), "emp-7")
    assert covers(given, [late]) and covers(given, [])
    assert not covers(given, [late, make_breach(Reason.fare_above_cap, approvers=["L1 manager"])])
    assert not covers(given, [make_breach(approvers=["L1 manager", "VP"])])
    assert not covers(decide(request_approval(late, stages=((ask,),)), "emp-7", "refuse"), [late])
