"""Tests on the loop harness of how the agent treats people's edits, undos, decisions and questions."""

from __future__ import annotations

from datetime import timedelta

import pytest

from agenticpm.domain.autonomy import DO_IT, MAX_QUESTIONS
from agenticpm.domain.contents import ArtefactType
from agenticpm.domain.tickets import Milestone, Plan
from agenticpm.model import artefacts, patterns, projects
from agenticpm.model.entities import EscalationStatus
from agenticpm.model.events import get_now
from agenticpm.workers import escalations
from agenticpm.workers.cycle import SIGNALS_PER_COMMIT
from holdfast.core.errors import Conflict, InvalidRequest
from tests.systems.agenticpm.unit.workers.loop_harness import INTERVAL_S, Harness
from tests.systems.agenticpm.unit.writers.sample_contents import DECISION_LOG

DAY_S = 86400.0


@pytest.mark.proves("AP-15")
@pytest.mark.parametrize(
    "type", [ArtefactType.delivery_state, ArtefactType.raid_log, ArtefactType.backlog_summary]
)
async def test_undone_artefact_stays_until_there_is_something_new(
    harness: Harness, type: ArtefactType
) -> None:
    project = await harness.create_project(autonomy_level="artefact")
    harness.tracker.put("MCU-1")
    await harness.run_cycle()
    harness.tracker.block("MCU-1")
    harness.clock.advance(INTERVAL_S)
    await harness.run_cycle()
    undone = await artefacts.undo(
        harness.stores, project.id, type, (await harness.artefact(project, type)).version
    )
    for _ in range(3):
        harness.clock.advance(INTERVAL_S)
        await harness.run_cycle()
        assert (await harness.artefact(project, type)).version == undone.version
    harness.tracker.put("MCU-2")
    harness.tracker.block("MCU-2")
    harness.clock.advance(INTERVAL_S)
    await harness.run_cycle()
    assert (await harness.artefact(project, type)).version == undone.version + 1


async def test_decision_cannot_name_a_raid_item_that_was_dropped_meanwhile(harness: Harness) -> None:
    """The item is dropped between the read and the write of the decision log, which is refused."""
    project = await harness.create_project(autonomy_level="artefact")
    harness.tracker.put("MCU-1")
    harness.tracker.block("MCU-1")
    await harness.run_cycle()
    raid = await harness.artefact(project, ArtefactType.raid_log)
    log = await harness.artefact(project, ArtefactType.decision_log)
    (item,) = raid.content["items"]
    decision = DECISION_LOG["decisions"][0] | {"related_raid_items": [item["id"]]}
    naming = await artefacts.build_update(
        harness.stores,
        project.id,
        ArtefactType.decision_log,
        {"decisions": [decision]},
        seen=log,
        related={ArtefactType.raid_log: raid.content},
    )
    # Between the read and the write of one, the other drops the item.
    await artefacts.update(harness.stores, project.id, ArtefactType.raid_log, {"items": []}, raid.version)
    with pytest.raises(Conflict):
        await harness.stores.transact(*naming, patterns.check_artefact(raid))
    with pytest.raises(InvalidRequest):
        await artefacts.update(
            harness.stores, project.id, ArtefactType.decision_log, {"decisions": [decision]}, log.version
        )


async def test_asks_again_about_an_expired_question_while_its_reason_holds(harness: Harness) -> None:
    due = get_now(harness.clock) - timedelta(days=1)
    harness.tracker.planned = Plan(milestones=(Milestone(name="Beta", due_at=due),))
    project = await harness.create_project(autonomy_level="artefact")
    harness.tracker.put("MCU-1", milestone="Beta")
    await harness.run_cycle()
    (question,) = await harness.escalations(project)
    harness.clock.advance(7 * DAY_S + 60)
    assert await escalations.expire_due(harness.stores) == 1
    await harness.run_cycle()
    first, again = await escalations.list_of_project(harness.stores, project.id)
    assert (first.id, first.status, again.status) == (
        question.id,
        EscalationStatus.expired,
        EscalationStatus.pending,
    )
    assert again.subject == question.subject
    harness.clock.advance(DAY_S)
    await harness.run_cycle()
    assert len(await harness.escalations(project)) == 2


async def test_evidence_has_the_earlier_state_in_every_commit_of_a_cycle(harness: Harness) -> None:
    """With more signals than one commit takes, all have the state before and after."""
    project = await harness.create_project(autonomy_level="monitoring")
    keys = [f"MCU-{number}" for number in range(SIGNALS_PER_COMMIT + 5)]
    for key in keys:
        harness.tracker.put(key)
    await harness.run_cycle()
    for key in keys:
        harness.tracker.put(key, is_blocked=True)
    harness.clock.advance(INTERVAL_S)
    (cycle,) = (await harness.make_loop().tick()).cycles
    signals = [each for each in cycle.signals if each.kind == "blocked"]
    assert len(signals) == len(keys)
    assert {(each.evidence[0].before, each.evidence[0].after) for each in signals} == {("false", "true")}
    assert project.autonomy_level == "monitoring"


async def test_do_it_is_refused_while_the_level_is_monitoring(harness: Harness) -> None:
    """At tactical again, the same decision holds the action."""
    project = await harness.create_project(config={"allowed_actions": []})
    harness.tracker.put("MCU-1")
    await harness.run_cycle()
    harness.tracker.block("MCU-1")
    harness.clock.advance(INTERVAL_S)
    await harness.run_cycle()
    (question,) = await harness.escalations(project)
    lowered = await projects.change(harness.stores, project.id, autonomy_level="monitoring")
    with pytest.raises(Conflict, match="level is monitoring"):
        await escalations.decide(harness.stores, project.id, question.id, DO_IT)
    assert (await harness.escalations(project))[0].status is EscalationStatus.pending
    assert not await harness.actions(project)

    await projects.change(harness.stores, lowered.id, autonomy_level="tactical")
    await escalations.decide(harness.stores, project.id, question.id, DO_IT)
    (action,) = await harness.actions(project)
    assert (action.detail or {})["ticket"] == "MCU-1"


async def test_limits_the_permission_questions_of_a_project(harness: Harness) -> None:
    project = await harness.create_project(config={"allowed_actions": []})
    for number in range(MAX_QUESTIONS + 8):
        harness.tracker.put(f"MCU-{number}")
    await harness.run_cycle()
    for number in range(MAX_QUESTIONS + 8):
        harness.tracker.block(f"MCU-{number}")
    harness.clock.advance(INTERVAL_S)
    (cycle,) = (await harness.make_loop().tick()).cycles
    assert len(cycle.signals) == MAX_QUESTIONS + 8
    assert len(await harness.escalations(project)) == MAX_QUESTIONS
