"""How far the agent goes by itself: the three levels, the four scores, what it may never do, and what a yes sets off."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from agenticpm.api import action_reviews
from agenticpm.domain.autonomy import (
    ACTIONS_PER_DAY_MAX,
    ALLOWABLE,
    COMMENT,
    DO_IT,
    ESCALATION_LIFETIME,
    LEAVE_IT,
    MAIL,
    MIN_SCORES,
    Precedents,
    Proposal,
    Question,
    build_permission_question,
    compute_confidence,
    find_failing_scores,
    propose,
)
from agenticpm.domain.tickets import Evidence, Milestone, Plan, Signal, SignalKind
from agenticpm.model import escalations, patterns
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
from holdfast.core.errors import Conflict
from tests.unit.agenticpm.loop_play import Play, played
from tests.unit.agenticpm.sample_snapshots import NOW, snapshot, ticket

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


def project(**changes: Any) -> Project:
    return PROJECT.model_copy(update=changes)


def proposal(of: Project = PROJECT, signal: Signal = BLOCKED) -> Proposal:
    found = propose(of, signal)
    assert isinstance(found, Proposal)
    return found


def scores(given: Proposal, of: Project = PROJECT, precedents: Precedents | None = None) -> list[str]:
    return find_failing_scores(
        compute_confidence(of, snapshot(ticket("MCU-1")), given, precedents or Precedents())
    )


# --- the levels ---------------------------------------------------------------------------------------------


def slips(play: Play) -> None:
    """A tracker with a blocked ticket and a milestone that slips: one calls for a comment, one for a decision."""
    due = get_now(play.clock) - timedelta(days=1)
    play.tracker.planned = Plan(milestones=(Milestone(name="Beta", due_at=due),))
    play.tracker.put("MCU-50", milestone="Beta")
    play.tracker.block("MCU-1")


def test_monitoring_observes_and_does_nothing_else() -> None:
    async def story(play: Play) -> None:
        of = await play.project(autonomy_level="monitoring")
        slips(play)
        await play.cycle()
        assert set(await play.signals(of)) == {"blocked:MCU-1", "slipping_milestone:Beta"}
        assert len(await play.stores.all(patterns.artefacts(of.id))) == 0
        assert (await play.actions(of), await play.escalations(of)) == ((), ())
        types = {each.event_type for each in await play.stores.all(patterns.project_events(of.id))}
        assert types == {"project_changed", "signal_detected", "heartbeat"}

    played(story)


def test_artefact_keeps_artefacts_and_asks_and_never_acts() -> None:
    async def story(play: Play) -> None:
        of = await play.project(autonomy_level="artefact")
        slips(play)
        await play.cycle()
        assert len(await play.stores.all(patterns.artefacts(of.id))) == 4
        (asked,) = await play.escalations(of)
        assert (asked.title, asked.agent_recommendation) == ("Beta is slipping", "Move the date")
        assert asked.expires_at == asked.created_at + ESCALATION_LIFETIME
        assert await play.actions(of) == ()
        play.clock.advance(86400)
        await play.execute()
        assert (play.tracker.ledger, play.mailer.asked) == ([], [])

    played(story)


def test_tactical_acts_too_and_waits_before_it_does() -> None:
    async def story(play: Play) -> None:
        of = await play.project()
        slips(play)
        await play.cycle()
        (action,) = await play.actions(of)
        assert (action.action_type, action.queue) == (ActionType.jira_update, "held")
        assert action.confidence == SURE
        assert (action.detail or {})["because"]["evidence"][0]["ticket"] == "MCU-1"
        assert len(await play.escalations(of)) == 1
        assert play.tracker.ledger == []

    played(story)


@pytest.mark.parametrize("level", [Autonomy.monitoring, Autonomy.artefact])
def test_below_tactical_no_signal_is_a_proposal(level: Autonomy) -> None:
    of = project(autonomy_level=level)
    for kind in SignalKind:
        assert not isinstance(propose(of, BLOCKED.model_copy(update={"kind": kind})), Proposal)


def test_each_level_proposes_of_every_signal_only_what_it_may() -> None:
    for kind in SignalKind:
        found = propose(PROJECT, BLOCKED.model_copy(update={"kind": kind}))
        assert found is None or isinstance(found, Question) or found.kind in ALLOWABLE


# --- the scores ---------------------------------------------------------------------------------------------


@pytest.mark.proves("AP-X14")
@pytest.mark.parametrize("name", MIN_SCORES)
def test_a_score_that_does_not_pass_is_enough(name: str) -> None:
    assert find_failing_scores(SURE) == []
    below = SURE.model_copy(update={name: MIN_SCORES[name] - Decimal("0.01")})
    assert find_failing_scores(below) == [name]


@pytest.mark.proves("AP-X14")
def test_the_scores_are_four_and_from_zero_to_one() -> None:
    assert set(Confidence.model_fields) == set(MIN_SCORES)
    for value in ("-0.01", "1.01"):
        with pytest.raises(ValueError, match="from 0 to 1"):
            Confidence(**(SURE.model_dump() | {"precedent_match": Decimal(value)}))


@pytest.mark.proves("AP-X14")
@pytest.mark.parametrize(
    ("failing_score", "given", "of", "precedents"),
    [
        ("source_agreement", replace(proposal(), signal=BLOCKED.model_copy(update={"evidence": ()})), {}, {}),
        (
            "source_agreement",
            replace(
                proposal(),
                signal=BLOCKED.model_copy(update={"evidence": (Evidence(ticket="X-9", field="f"),)}),
            ),
            {},
            {},
        ),
        ("boundary_compliance", proposal(), {"config": {"allowed_actions": [MAIL]}}, {}),
        ("boundary_compliance", proposal(), {"config": {"allowed_actions": []}}, {}),
        ("boundary_compliance", proposal(), {"config": {"allowed_actions": "comment"}}, {}),
        ("boundary_compliance", proposal(), {"autonomy_level": Autonomy.artefact}, {}),
        ("boundary_compliance", proposal(), {}, {"today": ACTIONS_PER_DAY_MAX}),
        (
            "schema_validity",
            replace(proposal(), detail={"kind": COMMENT, "ticket": "MCU-1", "text": ""}),
            {},
            {},
        ),
        (
            "schema_validity",
            proposal(project(config={"stakeholders": "sponsor@example.com"}), OVERDUE),
            {},
            {},
        ),
        ("schema_validity", proposal(project(config={"stakeholders": ["sponsor"]}), OVERDUE), {}, {}),
        ("schema_validity", proposal(project(config={"stakeholders": [7]}), OVERDUE), {}, {}),
        ("precedent_match", proposal(), {}, {"executed": 4, "cancelled": 5}),
    ],
)
def test_each_score_fails_for_its_own_reason_and_alone(
    failing_score: str, given: Proposal, of: dict[str, Any], precedents: dict[str, int]
) -> None:
    assert scores(given, project(**of), Precedents(**precedents)) == [failing_score]


@pytest.mark.parametrize("signal", [BLOCKED, OVERDUE])
def test_what_the_agent_proposes_by_itself_passes(signal: Signal) -> None:
    assert scores(proposal(signal=signal)) == []
    assert scores(proposal(signal=signal), precedents=Precedents(executed=5, cancelled=5)) == []


@pytest.mark.parametrize("kind", ["delete", "close", "reassign", "estimate"])
def test_what_may_never_be_done_stays_so_though_a_project_allows_it(kind: str) -> None:
    never = replace(proposal(), kind=kind)
    assert scores(never, project(config={"allowed_actions": [kind]})) == ["boundary_compliance"]


# --- a question in place of an action -----------------------------------------------------------------------


def test_the_question_says_what_would_be_done_why_and_what_the_agent_is_not_sure_of() -> None:
    low = SURE.model_copy(update={"precedent_match": Decimal("0.2")})
    asked = build_permission_question(proposal(), low, find_failing_scores(low))
    assert asked.title.startswith("May the agent do this? Comment on MCU-1")
    assert asked.context["failing"] == ["precedent_match"]
    assert asked.context["proposal"]["detail"]["ticket"] == "MCU-1"
    assert asked.context["evidence"][0]["ticket"] == "MCU-1"
    assert [each.option for each in asked.options] == [DO_IT, LEAVE_IT]
    assert "precedent_match" in asked.options[0].cons[0]


async def doubted(play: Play) -> tuple[Project, Escalation]:
    """A project whose agent may not comment by itself, and the question that came in place of a comment."""
    of = await play.project(config={"allowed_actions": [MAIL]})
    play.tracker.block("MCU-1")
    await play.cycle()
    assert await play.actions(of) == ()
    (asked,) = await play.escalations(of)
    assert asked.context["failing"] == ["boundary_compliance"]
    return of, asked


@pytest.mark.proves("AP-X14")
def test_a_yes_holds_the_action_due_at_once_in_one_transaction_with_the_decision() -> None:
    async def story(play: Play) -> None:
        of, asked = await doubted(play)
        play.clock.advance(60)
        api = play.stores.for_component("api")
        with play.stores.meter_usage() as meter:
            await escalations.decide(api, of.id, asked.id, DO_IT, by="the lead")
        writes = [each for each in meter.usages if each.operation not in ("GetItem", "Query")]
        assert [each.operation for each in writes] == ["TransactWriteItems"]
        (action,) = await play.actions(of)
        assert (action.queue, action.held_until, action.created_at) == ("held", *[get_now(play.clock)] * 2)
        assert (action.detail or {})["because"]["escalation"] == asked.id
        assert (await play.execute()).done == [action.id]
        assert [each["ticket"] for each in play.tracker.ledger] == ["MCU-1"]
        with pytest.raises(Conflict):
            await escalations.decide(api, of.id, asked.id, DO_IT, by="the lead")
        assert len(await play.actions(of)) == 1

    played(story)


def test_a_no_holds_nothing() -> None:
    async def story(play: Play) -> None:
        of, asked = await doubted(play)
        ended = await escalations.decide(play.stores.for_component("api"), of.id, asked.id, LEAVE_IT)
        assert ended.status is EscalationStatus.decided
        assert await play.actions(of) == ()

    played(story)


@pytest.mark.proves("AP-X14")
def test_when_people_keep_cancelling_the_agent_asks_before_the_next() -> None:
    async def story(play: Play) -> None:
        of = await play.project()
        play.tracker.block("MCU-1")
        await play.cycle()
        (action,) = await play.actions(of)
        await action_reviews.cancel(play.stores.for_component("api"), of.id, action.id, by="the lead")
        play.tracker.block("MCU-2")
        await play.cycle()
        assert len(await play.actions(of)) == 1
        (asked,) = await play.escalations(of)
        assert asked.context["failing"] == ["precedent_match"]

    played(story)


def test_after_the_days_limit_of_actions_the_agent_asks() -> None:
    async def story(play: Play) -> None:
        of = await play.project()
        for number in range(ACTIONS_PER_DAY_MAX + 3):
            play.tracker.block(f"MCU-{number}")
        await play.cycle()
        assert len(await play.actions(of)) == ACTIONS_PER_DAY_MAX
        asked = await play.escalations(of)
        assert [each.context["failing"] for each in asked] == [["boundary_compliance"]] * 3
        play.clock.advance(86400)
        play.tracker.block("MCU-99")
        await play.cycle()
        assert len(await play.actions(of)) == ACTIONS_PER_DAY_MAX + 1

    played(story)


def test_a_stakeholder_who_is_no_address_is_asked_about_and_never_mailed() -> None:
    async def story(play: Play) -> None:
        made = await play.project()
        # As if it had come past the door.
        of = made.model_copy(update={"config": {"stakeholders": ["the sponsor"]}})
        given = proposal(of, OVERDUE)
        stores = play.stores
        low = compute_confidence(of, snapshot(), given, Precedents())
        asked = build_permission_question(given, low, find_failing_scores(low))
        await stores.transact(
            *await escalations.build_escalation(
                stores, of.id, title=asked.title, context=asked.context, options=asked.options
            )
        )
        (question,) = await play.escalations(of)
        await escalations.decide(stores.for_component("api"), of.id, question.id, DO_IT)
        outcome = await play.execute()
        assert len(outcome.refused) == 1
        assert play.mailer.asked == []

    played(story)
