"""Approvals of soft breaches: who is asked, until when, and what happens without an answer. Pure functions.

    build_approval → apply_decision (a person), escalate, apply_deadline → Approval with its decision

An approval has stages, one after the other. A stage has asks, one for each approver that the policy names;
all of them have to approve, and any one of an ask's people decides for it. A refusal ends the approval. A
person who has approved is not asked again in a later stage.

At the deadline of a stage a soft breach is approved if the policy says so. It is refused if its reason needs
an explicit approval, if the passages match only roughly, or if an approver's word has no person: a person who
was never notified has not agreed. Travellers cannot decide on their own trips.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

from holdfast.core.errors import AccessRefused, Conflict, InvalidRequest
from tripcortex.domain.policy_rules.travel_policy import (
    STRICTEST,
    ApprovalRules,
    Policies,
    find_newest_with,
    to_policies,
)
from tripcortex.model.entities import Approval, ApprovalAsk, ApprovalStage, Breach

APPROVE: Final = "approve"
REFUSE: Final = "refuse"
DECISIONS: Final = (APPROVE, REFUSE)
# `decided_by` of an approval that the deadline decided.
DEADLINE: Final = "deadline"
SEQUENTIAL: Final = "sequential"
JOINT: Final = "joint"
MAX_REASON_CHARS: Final = 500

_THEN: Final = re.compile(r"\s*(?:→|->|;|,?\s*\b(?:and then|then|followed by)\b)\s*", re.I)
# A comma alone does not separate: “Vice President, Finance” is one person.
_AND: Final = re.compile(
    r"\s*(?:\s&\s|\s\+\s|,?\s*\b(?:and(?!\s+(?:above|higher|up)\b)|as well as|together with)\b)\s*",
    re.I,
)


class MayNotDecide(AccessRefused, label="MayNotDecide"):
    """The person may not decide: the traveller, or a person who is not asked."""

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


# --- who is asked -------------------------------------------------------------------------------------------


def list_words(breaches: Sequence[Breach]) -> tuple[str, ...]:
    """Return the approvers that the breaches ask for, in the policy's words and order, each once."""
    return tuple(dict.fromkeys(word for breach in breaches for word in breach.approvers))


def list_default_words(policies: Policies) -> tuple[str, ...]:
    """Return the approvers of breaches that name none: the first is asked, the others are stand-ins."""
    return _get_approval_rules(policies).approver


def split_stages(
    words: Iterable[str], order: str = SEQUENTIAL, known: Iterable[str] = ()
) -> tuple[tuple[str, ...], ...]:
    """Return the words by stage. With the order `joint` all words are one stage, unless one says “then”.

    A word may name several approvers itself: “L1 manager and Finance” decide jointly, “L1 manager, then
    Finance” one after the other. `known` are words that are never split.
    """
    whole = {each.casefold() for each in known}
    stages: list[tuple[str, ...]] = []
    for word in words:
        steps = [word] if word.casefold() in whole else [each for each in _THEN.split(word) if each.strip()]
        for position, step in enumerate(steps):
            joint = (
                (step,) if step.casefold() in whole else tuple(filter(None, map(str.strip, _AND.split(step))))
            )
            if order == JOINT and stages and position == 0 and len(steps) == 1:
                stages[-1] = (*stages[-1], *joint)
            else:
                stages.append(joint)
    return tuple(stages)


def build_approval(
    breaches: Sequence[Breach],
    policies: Policies,
    stages: Sequence[Sequence[ApprovalAsk]],
    now: datetime,
    *,
    confidence: str = "high",
    escalate_percent: int = 0,
    price_usd: Decimal | None = None,
) -> Approval:
    """Build the approval that begins with the first stage.

    The deadline approves only if every ask has the person whom its word means. Raise `InvalidRequest` for a
    hard breach.
    """
    if hard := [breach.code for breach in breaches if breach.severity == "hard"]:
        raise InvalidRequest(
            f"Hard stops cannot be approved: {', '.join(hard)}. Choose an option that complies."
        )
    rules = _get_approval_rules(policies)
    is_explicit = any(breach.code in rules.must_be_given for breach in breaches)
    is_heard = confidence == "high" and all(ask.is_named for stage in stages for ask in stage)
    is_soft = rules.at_deadline == APPROVE and not is_explicit and is_heard
    stage_s = 3600 * (rules.soft_deadline_hours if is_soft else rules.hard_deadline_hours)
    approval = Approval(
        asked_of="",
        due_at=now,
        at_deadline=APPROVE if is_soft else REFUSE,
        stages=[ApprovalStage(asks=list(asks)) for asks in stages],
        stage_s=stage_s,
        escalate_s=stage_s * escalate_percent // 100 if escalate_percent else None,
        codes=list(dict.fromkeys(breach.code for breach in breaches)),
        words=list(list_words(breaches)),
        price_usd=price_usd,
        accepted_usd=price_usd,
    )
    return _begin_stage(approval, 0, now)


def to_staged(approval: Approval) -> Approval:
    """Return the approval with stages; one of version 0.2 becomes a stage with one person."""
    if approval.stages:
        return approval
    ask = ApprovalAsk(word=approval.asked_of, people=[approval.asked_of])
    return approval.model_copy(update={"stages": [ApprovalStage(asks=[ask])]})


def get_open_asks(approval: Approval) -> tuple[ApprovalAsk, ...]:
    """Return the asks of the current stage that nobody has decided; none if the approval is decided."""
    if approval.decision is not None:
        return ()
    staged = to_staged(approval)
    return tuple(ask for ask in staged.stages[staged.stage].asks if ask.decision is None)


def list_people(approval: Approval) -> tuple[str, ...]:
    """Return the people who are asked now."""
    return tuple(dict.fromkeys(each for ask in get_open_asks(approval) for each in ask.people))


def may_decide(approval: Approval, caller: str, acting_for: Iterable[str] = ()) -> bool:
    """Return whether the caller, or an absent approver for whom the caller acts, is asked now."""
    callers = {caller, *acting_for}
    return any(callers & {*ask.people, *ask.stand_ins} for ask in get_open_asks(approval))


def get_next_time(approval: Approval) -> datetime:
    """Return when the current stage is escalated, or else its deadline."""
    return approval.due_at if approval.escalate_at is None else min(approval.escalate_at, approval.due_at)


def covers(approval: Approval | None, breaches: Sequence[Breach]) -> bool:
    """Return whether the approval was given for these breaches, by the approvers that they name."""
    if approval is None or approval.decision != APPROVE:
        return not breaches
    # An approval that version 0.2 asked for names neither its breaches nor their approvers.
    if not approval.codes:
        return True
    codes = {breach.code for breach in breaches}
    return codes <= set(approval.codes) and set(list_words(breaches)) <= set(approval.words)


# --- decisions ----------------------------------------------------------------------------------------------


def apply_decision(
    approval: Approval,
    decision: str,
    by: str,
    now: datetime,
    *,
    employee_id: str,
    acting_for: Sequence[str] = (),
    reason: str | None = None,
) -> Approval:
    """Return the approval with a person's decision about every ask of the stage that is theirs.

    `acting_for` are absent approvers for whom the person acts as delegate. Raise `MayNotDecide` for the
    traveller or a person who is not asked, `ApprovalOver` if it is decided or past its deadline.
    """
    if decision not in DECISIONS:
        raise InvalidRequest(f"Invalid decision {decision!r:.40}: expected {' or '.join(DECISIONS)}.")
    if by == employee_id:
        raise MayNotDecide("Travellers may not decide on their own trips: another approver has to.")
    staged, callers = to_staged(approval), [by, *(each for each in acting_for if each != employee_id)]
    _refuse_late(staged, callers, now)
    decided = [_decide_ask(ask, callers, decision, now, reason) for ask in staged.stages[staged.stage].asks]
    staged = _replace_asks(staged, decided)
    if decision == REFUSE:
        return _end(staged, REFUSE, by, now, reason)
    return _advance(staged, by, now, reason)


def apply_deadline(approval: Approval, now: datetime) -> Approval:
    """Return the approval as the deadline decides its stage; unchanged if it is decided or not yet due."""
    if approval.decision is not None or now < approval.due_at:
        return approval
    staged, reason = to_staged(approval), "No approver answered in time."
    if staged.at_deadline != APPROVE:
        return _end(staged, REFUSE, DEADLINE, now, reason)
    decided = [
        ask if ask.decision is not None else _set_decision(ask, APPROVE, DEADLINE, now, reason)
        for ask in staged.stages[staged.stage].asks
    ]
    return _advance(_replace_asks(staged, decided), DEADLINE, now, reason)


def escalate(approval: Approval, more: Mapping[str, Sequence[str]]) -> Approval:
    """Return the approval with further people for its open asks, by the ask's word; once a stage."""
    staged = to_staged(approval)
    asks = [
        ask
        if ask.decision is not None
        else ask.model_copy(update={"people": list(dict.fromkeys([*ask.people, *more.get(ask.word, ())]))})
        for ask in staged.stages[staged.stage].asks
    ]
    return _replace_asks(staged, asks).model_copy(update={"escalate_at": None})


def reassign(approval: Approval, people: Mapping[str, ApprovalAsk]) -> Approval:
    """Return the approval with other people for open asks, by the ask's word."""
    staged = to_staged(approval)
    stages = [
        ApprovalStage(
            asks=[
                ask if ask.decision is not None or ask.word not in people else people[ask.word]
                for ask in stage.asks
            ]
        )
        for stage in staged.stages
    ]
    return _with_asked(staged.model_copy(update={"stages": stages}))


def _refuse_late(staged: Approval, callers: Sequence[str], now: datetime) -> None:
    """Raise `ApprovalOver` or `MayNotDecide` unless one of the callers is asked now, and in time."""
    if staged.decision is not None:
        raise ApprovalOver(
            f"This approval is already decided ({staged.decision}). Request the trip again to change it.",
            staged.decision,
        )
    asks = staged.stages[staged.stage].asks
    mine = [ask for ask in asks if {*callers} & {*ask.people, *ask.stand_ins}]
    if not mine:
        raise MayNotDecide("You are not asked to approve this trip now: only the current approvers decide.")
    if all(ask.decision is not None for ask in mine):
        raise ApprovalOver(
            f"Your part is already decided ({mine[0].decision}, by {mine[0].decided_by}).", mine[0].decision
        )
    if now >= staged.due_at:
        raise ApprovalOver(
            f"The deadline passed at {staged.due_at.isoformat()}: the decision is {staged.at_deadline}.",
            None,
        )


def _decide_ask(
    ask: ApprovalAsk, callers: Sequence[str], decision: str, now: datetime, reason: str | None
) -> ApprovalAsk:
    """Return the ask with the decision, if it is open and one of the callers is asked."""
    principals = [each for each in callers if each in ask.people or each in ask.stand_ins]
    if ask.decision is not None or not principals:
        return ask
    decided = _set_decision(ask, decision, callers[0], now, reason)
    is_delegate = principals[0] != callers[0]
    return decided.model_copy(update={"on_behalf_of": principals[0]}) if is_delegate else decided


def _set_decision(ask: ApprovalAsk, decision: str, by: str, now: datetime, reason: str | None) -> ApprovalAsk:
    """Return a copy of the ask with the decision; the reason is cut to 500 characters."""
    return ask.model_copy(
        update={
            "decision": decision,
            "decided_by": by,
            "decided_at": now,
            "reason": reason[:MAX_REASON_CHARS] if reason else None,
        }
    )


def _replace_asks(staged: Approval, asks: Sequence[ApprovalAsk]) -> Approval:
    """Return the approval with other asks in its current stage."""
    stages = list(staged.stages)
    stages[staged.stage] = ApprovalStage(asks=list(asks))
    return _with_asked(staged.model_copy(update={"stages": stages}))


def _advance(staged: Approval, by: str, now: datetime, reason: str | None) -> Approval:
    """Return the approval in its next stage if this one is complete, and approved after the last one."""
    if any(ask.decision is None for ask in staged.stages[staged.stage].asks):
        return staged
    if staged.stage + 1 == len(staged.stages):
        return _end(staged, APPROVE, by, now, reason)
    following = _begin_stage(staged, staged.stage + 1, now)
    return _advance(following, by, now, reason)


def _begin_stage(approval: Approval, position: int, now: datetime) -> Approval:
    """Return the approval at the beginning of a stage, without asking again who has approved before."""
    given: dict[str, ApprovalAsk] = {}
    for ask in (each for stage in approval.stages[:position] for each in stage.asks):
        if ask.decided_by is not None and ask.decided_by != DEADLINE:
            given.setdefault(ask.decided_by, ask)
    begun = approval.model_copy(
        update={
            "stage": position,
            "due_at": now + timedelta(seconds=approval.stage_s),
            "escalate_at": None
            if approval.escalate_s is None
            else now + timedelta(seconds=approval.escalate_s),
        }
    )
    asks = [_repeat_approval(ask, given, now) for ask in approval.stages[position].asks]
    return _replace_asks(begun, asks)


def _repeat_approval(ask: ApprovalAsk, given: Mapping[str, ApprovalAsk], now: datetime) -> ApprovalAsk:
    """Return the ask approved if one of its people has approved in an earlier stage."""
    person = next((each for each in ask.people if each in given), None)
    if person is None:
        return ask
    return _set_decision(ask, APPROVE, person, now, f"Approved already as {given[person].word}.")


def _with_asked(staged: Approval) -> Approval:
    """Return the approval with `asked_of` as the first person who is asked now; unchanged without one."""
    people = list_people(staged)
    return staged.model_copy(update={"asked_of": people[0]}) if people else staged


def _end(staged: Approval, decision: str, by: str, now: datetime, reason: str | None) -> Approval:
    """Return the approval with its decision."""
    return staged.model_copy(
        update={
            "decision": decision,
            "decided_by": by,
            "decided_at": now,
            "escalate_at": None,
            "reason": reason[:MAX_REASON_CHARS] if reason else None,
        }
    )


def _get_approval_rules(policies: Policies) -> ApprovalRules:
    """Return the approval rules of the newest policy that has any.

    The chains of several policies are not combined.
    """
    return find_newest_with(to_policies(policies) or (STRICTEST,), "approval").approval
