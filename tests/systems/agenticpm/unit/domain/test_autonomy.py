"""Tests of the autonomy rules, alone and on the loop harness: levels, scores, and permission questions."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from agenticpm.api import action_reviews
from agenticpm.domain.autonomy import (
    ALLOWABLE,
    COMMENT,
    DO_IT,
    ESCALATION_LIFETIME,
    LEAVE_IT,
    MAIL,
    MAX_ACTIONS_PER_DAY,
    MIN_SCORES,
    MOVE,
    Precedents,
    Proposal,
    Question,
    build_permission_question,
    compute_confidence,
    find_failing_scores,
    propose,
)
from agenticpm.domain.tickets import Evidence, Milestone, Plan, Signal, SignalKind
from agenticpm.model import patterns
from agenticpm.model.entities import (
    ActionType,
    Autonomy,
    Confidence,
    Escalation,
    EscalationStatus,
    Project,
    Source,
)
from agenticpm.model.events import get_now
from agenticpm.workers import escalations
from holdfast.core.errors import Conflict
from tests.systems.agenticpm.unit.sample_snapshots import NOW, make_snapshot, make_ticket
from tests.systems.agenticpm.unit.workers.loop_harness import Harness

PROJECT = Project(
    id=patterns.EXAMPLE_PROJECT,
    name="Member profile",
    source=Source.jira,
    source_project_key="MCU",
    autonomy_level=Autonomy.tactical,
    config={"stakeholders": ["sponsor@example.com"]},
    created_at=NOW,
    updated_at=NOW,
)
BLOCKED = Signal(
    kind=SignalKind.blocked,
    subject="MCU-1",
    summary="MCU-1 is blocked",
    evidence=(Evidence(ticket="MCU-1", field="Flagged", after="Impediment"),),
)
OVERDUE = Signal(
    kind=SignalKind.risk_overdue,
    subject="R001",
    summary="R001 was due",
    evidence=(Evidence(field="due_date", after="2026-02-01"),),
)
SURE = Confidence(
    source_agreement=Decimal(1),
    boundary_compliance=Decimal(1),
    schema_validity=Decimal(1),
    precedent_match=Decimal("0.5"),
)


def make_project(**changes: Any) -> Project:
    return PROJECT.model_copy(update=changes)


def make_proposal(of: Project = PROJECT, signal: Signal = BLOCKED) -> Proposal:
    """Return the action that is proposed for the signal in the project."""
    found = propose(of, signal)
    assert isinstance(found, Proposal)
    return found


def failing_scores(given: Proposal, of: Project = PROJECT, precedents: Precedents | None = None) -> list[str]:
    """Return the failing scores of a proposal; the snapshot has only the ticket MCU-1."""
    return find_failing_scores(
        compute_confidence(of, make_snapshot(make_ticket("MCU-1")), given, precedents or Precedents())
    )


# --- levels -------------------------------------------------------------------------------------------------


def set_up_slipping_project(harness: Harness) -> None:
    """Add a blocked ticket and a slipping milestone: one calls for a comment, one for a decision."""
    due = get_now(harness.clock) - timedelta(days=1)
    harness.tracker.planned = Plan(milestones=(Milestone(name="Beta", due_at=due),))
    harness.tracker.put("MCU-50", milestone="Beta")
    harness.tracker.block("MCU-1")


async def test_monitoring_only_observes(harness: Harness) -> None:
    of = await harness.create_project(autonomy_level="monitoring")
    set_up_slipping_project(harness)
    await harness.run_cycle()
    assert set(await harness.signals(of)) == {"blocked:MCU-1", "slipping_milestone:Beta"}
    assert len(await harness.stores.all(patterns.artefacts(of.id))) == 0
    assert (await harness.actions(of), await harness.escalations(of)) == ((), ())
    types = {each.event_type for each in await harness.stores.all(patterns.project_events(of.id))}
    assert types == {"project_changed", "signal_detected", "heartbeat"}


async def test_artefact_level_keeps_artefacts_and_asks_but_never_acts(harness: Harness) -> None:
    of = await harness.create_project(autonomy_level="artefact")
    set_up_slipping_project(harness)
    await harness.run_cycle()
    assert len(await harness.stores.all(patterns.artefacts(of.id))) == 4
    (question,) = await harness.escalations(of)
    assert (question.title, question.agent_recommendation) == ("Beta is slipping", "Move the date")
    assert question.expires_at == question.created_at + ESCALATION_LIFETIME
    assert await harness.actions(of) == ()
    harness.clock.advance(86400)
    await harness.execute()
    assert (harness.tracker.ledger, harness.mailer.keys) == ([], [])


async def test_tactical_level_holds_an_action_and_does_not_act_yet(harness: Harness) -> None:
    of = await harness.create_project()
    set_up_slipping_project(harness)
    await harness.run_cycle()
    (action,) = await harness.actions(of)
    assert (action.action_type, action.queue) == (ActionType.jira_update, "held")
    assert action.held_until == action.created_at + timedelta(minutes=30)
    assert action.confidence == SURE
    assert (action.detail or {})["because"]["evidence"][0]["ticket"] == "MCU-1"
    assert len(await harness.escalations(of)) == 1
    assert harness.tracker.ledger == []


@pytest.mark.parametrize("level", [Autonomy.monitoring, Autonomy.artefact])
def test_no_signal_becomes_a_proposal_below_the_tactical_level(level: Autonomy) -> None:
    """Questions are allowed, actions are not."""
    of = make_project(autonomy_level=level)
    for kind in SignalKind:
        assert not isinstance(propose(of, BLOCKED.model_copy(update={"kind": kind})), Proposal)


def test_tactical_level_proposes_only_allowable_actions() -> None:
    for kind in SignalKind:
        found = propose(PROJECT, BLOCKED.model_copy(update={"kind": kind}))
        assert found is None or isinstance(found, Question) or found.kind in ALLOWABLE


# --- scores -------------------------------------------------------------------------------------------------


@pytest.mark.proves("AP-X14")
@pytest.mark.parametrize("name", MIN_SCORES)
def test_score_below_its_minimum_is_reported_as_failing(name: str) -> None:
    assert find_failing_scores(SURE) == []
    below = SURE.model_copy(update={name: MIN_SCORES[name] - Decimal("0.01")})
    assert find_failing_scores(below) == [name]


@pytest.mark.proves("AP-X14")
def test_there_are_four_scores_from_zero_to_one() -> None:
    assert set(Confidence.model_fields) == set(MIN_SCORES)
    for value in ("-0.01", "1.01"):
        with pytest.raises(ValueError, match="from 0 to 1"):
            Confidence(**(SURE.model_dump() | {"precedent_match": Decimal(value)}))


@pytest.mark.proves("AP-X14")
@pytest.mark.parametrize(
    ("failing_score", "given", "of", "precedents"),
    [
        (
            "source_agreement",
            replace(make_proposal(), signal=BLOCKED.model_copy(update={"evidence": ()})),
            {},
            {},
        ),
        (
            "source_agreement",
            replace(
                make_proposal(),
                signal=BLOCKED.model_copy(update={"evidence": (Evidence(ticket="X-9", field="f"),)}),
            ),
            {},
            {},
        ),
        ("boundary_compliance", make_proposal(), {"config": {"allowed_actions": [MAIL]}}, {}),
        ("boundary_compliance", make_proposal(), {"config": {"allowed_actions": []}}, {}),
        ("boundary_compliance", make_proposal(), {"config": {"allowed_actions": "comment"}}, {}),
        ("boundary_compliance", make_proposal(), {"autonomy_level": Autonomy.artefact}, {}),
        ("boundary_compliance", make_proposal(), {}, {"today": MAX_ACTIONS_PER_DAY}),
        (
            "schema_validity",
            replace(make_proposal(), detail={"kind": COMMENT, "ticket": "MCU-1", "text": ""}),
            {},
            {},
        ),
        (
            "schema_validity",
            make_proposal(make_project(config={"stakeholders": "sponsor@example.com"}), OVERDUE),
            {},
            {},
        ),
        (
            "schema_validity",
            make_proposal(make_project(config={"stakeholders": ["sponsor"]}), OVERDUE),
            {},
            {},
        ),
        ("schema_validity", make_proposal(make_project(config={"stakeholders": [7]}), OVERDUE), {}, {}),
        ("precedent_match", make_proposal(), {}, {"executed": 4, "cancelled": 5}),
    ],
)
def test_each_score_fails_alone_for_its_own_reason(
    failing_score: str, given: Proposal, of: dict[str, Any], precedents: dict[str, int]
) -> None:
    assert failing_scores(given, make_project(**of), Precedents(**precedents)) == [failing_score]


@pytest.mark.parametrize("signal", [BLOCKED, OVERDUE])
def test_agents_own_proposals_pass_all_scores(signal: Signal) -> None:
    assert failing_scores(make_proposal(signal=signal)) == []
    assert failing_scores(make_proposal(signal=signal), precedents=Precedents(executed=5, cancelled=5)) == []


@pytest.mark.parametrize("kind", [MOVE, "delete", "close", "reassign", "estimate"])
def test_forbidden_actions_stay_forbidden_when_a_project_allows_them(kind: str) -> None:
    never = replace(make_proposal(), kind=kind)
    assert failing_scores(never, make_project(config={"allowed_actions": [kind]})) == ["boundary_compliance"]


# --- questions instead of actions ---------------------------------------------------------------------------


def test_question_states_the_action_the_reason_and_the_doubt() -> None:
    low = SURE.model_copy(update={"precedent_match": Decimal("0.2")})
    question = build_permission_question(make_proposal(), low, find_failing_scores(low))
    assert question.title.startswith("May the agent do this? Comment on MCU-1")
    assert question.context["failing"] == ["precedent_match"]
    assert question.context["proposal"]["detail"]["ticket"] == "MCU-1"
    assert question.context["evidence"][0]["ticket"] == "MCU-1"
    assert [each.option for each in question.options] == [DO_IT, LEAVE_IT]
    assert "precedent_match" in question.options[0].cons[0]


async def create_question(harness: Harness) -> tuple[Project, Escalation]:
    """Create a project whose agent may not comment, and the question it asks instead."""
    of = await harness.create_project(config={"allowed_actions": [MAIL]})
    harness.tracker.block("MCU-1")
    await harness.run_cycle()
    assert await harness.actions(of) == ()
    (question,) = await harness.escalations(of)
    assert question.context["failing"] == ["boundary_compliance"]
    return of, question


@pytest.mark.proves("AP-X14")
async def test_do_it_holds_the_action_due_at_once_in_one_transaction(harness: Harness) -> None:
    of, question = await create_question(harness)
    harness.clock.advance(60)
    api = harness.stores.for_component("api")
    with harness.stores.meter_usage() as meter:
        await escalations.decide(api, of.id, question.id, DO_IT, by="the lead")
    writes = [each for each in meter.usages if each.operation not in ("GetItem", "Query")]
    assert [each.operation for each in writes] == ["TransactWriteItems"]
    (action,) = await harness.actions(of)
    assert (action.queue, action.held_until, action.created_at) == ("held", *[get_now(harness.clock)] * 2)
    assert (action.detail or {})["because"]["escalation"] == question.id
    assert (await harness.execute()).done == [action.id]
    assert [each["ticket"] for each in harness.tracker.ledger] == ["MCU-1"]
    with pytest.raises(Conflict):
        await escalations.decide(api, of.id, question.id, DO_IT, by="the lead")
    assert len(await harness.actions(of)) == 1


async def test_leave_it_holds_no_action(harness: Harness) -> None:
    of, question = await create_question(harness)
    ended = await escalations.decide(harness.stores.for_component("api"), of.id, question.id, LEAVE_IT)
    assert ended.status is EscalationStatus.decided
    assert await harness.actions(of) == ()


@pytest.mark.proves("AP-X14")
async def test_agent_asks_first_after_a_cancellation(harness: Harness) -> None:
    of = await harness.create_project()
    harness.tracker.block("MCU-1")
    await harness.run_cycle()
    (action,) = await harness.actions(of)
    await action_reviews.cancel(harness.stores.for_component("api"), of.id, action.id, by="the lead")
    harness.tracker.block("MCU-2")
    await harness.run_cycle()
    assert len(await harness.actions(of)) == 1
    (question,) = await harness.escalations(of)
    assert question.context["failing"] == ["precedent_match"]


async def test_agent_asks_after_the_daily_action_limit(harness: Harness) -> None:
    of = await harness.create_project()
    for number in range(MAX_ACTIONS_PER_DAY + 3):
        harness.tracker.block(f"MCU-{number}")
    await harness.run_cycle()
    assert len(await harness.actions(of)) == MAX_ACTIONS_PER_DAY
    questions = await harness.escalations(of)
    assert [each.context["failing"] for each in questions] == [["boundary_compliance"]] * 3
    harness.clock.advance(86400)
    harness.tracker.block("MCU-99")
    await harness.run_cycle()
    assert len(await harness.actions(of)) == MAX_ACTIONS_PER_DAY + 1


async def test_refuses_an_approved_mail_to_a_stakeholder_without_an_address(harness: Harness) -> None:
    """A person chose "Do it", and yet no mail is sent."""

    made = await harness.create_project()
    # Bypass the check of the API.
    of = made.model_copy(update={"config": {"stakeholders": ["the sponsor"]}})
    given = make_proposal(of, OVERDUE)
    stores = harness.stores
    low = compute_confidence(of, make_snapshot(), given, Precedents())
    asked = build_permission_question(given, low, find_failing_scores(low))
    await stores.transact(
        *await escalations.build_escalation(
            stores, of.id, title=asked.title, context=asked.context, options=asked.options
        )
    )
    (question,) = await harness.escalations(of)
    await escalations.decide(stores.for_component("api"), of.id, question.id, DO_IT)
    outcome = await harness.execute()
    assert len(outcome.refused) == 1
    assert harness.mailer.keys == []
