"""What a person has written, undone or left undecided, and what the agent makes of it afterwards."""

from __future__ import annotations

from datetime import timedelta

import pytest

from agenticpm.domain.autonomy import DO_IT, QUESTIONS_MAX
from agenticpm.domain.contents import ArtefactType
from agenticpm.domain.tickets import Milestone, Plan
from agenticpm.model import artefacts, escalations, patterns, projects
from agenticpm.model.entities import EscalationStatus, Project
from agenticpm.model.events import get_now
from agenticpm.workers.cycle import SIGNALS_PER_COMMIT
from holdfast.core.errors import Conflict, InvalidRequest
from tests.unit.agenticpm.loop_play import INTERVAL_S, Play, played

DAY_S = 86400.0


async def version_of(play: Play, project: Project, type: ArtefactType) -> int:
    found = await play.stores.run(patterns.artefact(project.id, type))
    assert found is not None
    return found.version


@pytest.mark.proves("AP-15")
@pytest.mark.parametrize(
    "type", [ArtefactType.delivery_state, ArtefactType.raid_log, ArtefactType.backlog_summary]
)
def test_what_a_person_has_undone_stays_until_there_is_something_new(type: ArtefactType) -> None:
    async def story(play: Play) -> None:
        project = await play.project(autonomy_level="artefact")
        play.tracker.put("MCU-1")
        await play.cycle()
        play.tracker.block("MCU-1")
        play.clock.advance(INTERVAL_S)
        await play.cycle()
        undone = await artefacts.undo(play.stores, project.id, type, await version_of(play, project, type))
        for _ in range(3):
            play.clock.advance(INTERVAL_S)
            await play.cycle()
            assert await version_of(play, project, type) == undone.version
        play.tracker.put("MCU-2")
        play.tracker.block("MCU-2")
        play.clock.advance(INTERVAL_S)
        await play.cycle()
        assert await version_of(play, project, type) == undone.version + 1

    played(story)


def test_a_log_that_names_an_item_and_one_that_drops_it_do_not_both_get_through() -> None:
    async def story(play: Play) -> None:
        project = await play.project(autonomy_level="artefact")
        play.tracker.put("MCU-1")
        play.tracker.block("MCU-1")
        await play.cycle()
        raid = await play.stores.run(patterns.artefact(project.id, ArtefactType.raid_log))
        log = await play.stores.run(patterns.artefact(project.id, ArtefactType.decision_log))
        assert raid is not None and log is not None
        (item,) = raid.content["items"]
        decision = {
            "id": "D001",
            "title": "t",
            "context": "c",
            "options_considered": [{"option": "a", "pros": [], "cons": []}],
            "decision": "a",
            "rationale": "r",
            "made_by": "user",
            "date": "2026-02-03T00:00:00Z",
            "status": "active",
            "related_raid_items": [item["id"]],
        }
        naming = await artefacts.build_update(
            play.stores,
            project.id,
            ArtefactType.decision_log,
            {"decisions": [decision]},
            seen=log,
            related={ArtefactType.raid_log: raid.content},
        )
        # Between what one has read and what it writes, the other has dropped the item.
        await artefacts.update(play.stores, project.id, ArtefactType.raid_log, {"items": []}, raid.version)
        with pytest.raises(Conflict):
            await play.stores.transact(*naming, patterns.check_artefact(raid))
        with pytest.raises(InvalidRequest):
            await artefacts.update(
                play.stores, project.id, ArtefactType.decision_log, {"decisions": [decision]}, log.version
            )

    played(story)


def test_what_nobody_decided_in_time_is_asked_anew_while_it_stands() -> None:
    async def story(play: Play) -> None:
        due = get_now(play.clock) - timedelta(days=1)
        play.tracker.planned = Plan(milestones=(Milestone(name="Beta", due_at=due),))
        project = await play.project(autonomy_level="artefact")
        play.tracker.put("MCU-1", milestone="Beta")
        await play.cycle()
        (asked,) = await play.escalations(project)
        play.clock.advance(7 * DAY_S + 60)
        assert await escalations.expire_due(play.stores) == 1
        await play.cycle()
        first, again = await escalations.list_of_project(play.stores, project.id)
        assert (first.id, first.status, again.status) == (
            asked.id,
            EscalationStatus.expired,
            EscalationStatus.pending,
        )
        assert again.subject == asked.subject
        play.clock.advance(DAY_S)
        await play.cycle()
        assert len(await play.escalations(project)) == 2

    played(story)


def test_evidence_is_what_was_before_also_beyond_the_first_commit() -> None:
    async def story(play: Play) -> None:
        project = await play.project(autonomy_level="monitoring")
        keys = [f"MCU-{number}" for number in range(SIGNALS_PER_COMMIT + 5)]
        for key in keys:
            play.tracker.put(key)
        await play.cycle()
        for key in keys:
            play.tracker.put(key, is_blocked=True)
        play.clock.advance(INTERVAL_S)
        (cycle,) = (await play.loop().tick()).cycles
        told = [each for each in cycle.signals if each.kind == "blocked"]
        assert len(told) == len(keys)
        assert {(each.evidence[0].before, each.evidence[0].after) for each in told} == {("false", "true")}
        assert project.autonomy_level == "monitoring"

    played(story)


def test_a_yes_is_no_permission_against_the_projects_level_or_status() -> None:
    async def story(play: Play) -> None:
        project = await play.project(config={"allowed_actions": []})
        play.tracker.put("MCU-1")
        await play.cycle()
        play.tracker.block("MCU-1")
        play.clock.advance(INTERVAL_S)
        await play.cycle()
        (asked,) = await play.escalations(project)
        lowered = await projects.change(play.stores, project.id, autonomy_level="monitoring")
        with pytest.raises(Conflict, match="level is monitoring"):
            await escalations.decide(play.stores, project.id, asked.id, DO_IT)
        assert (await play.escalations(project))[0].status is EscalationStatus.pending
        assert not await play.actions(project)

        await projects.change(play.stores, lowered.id, autonomy_level="tactical")
        await escalations.decide(play.stores, project.id, asked.id, DO_IT)
        (action,) = await play.actions(project)
        assert (action.detail or {})["ticket"] == "MCU-1"

    played(story)


def test_a_project_asks_only_so_many_questions_at_a_time_whether_it_may() -> None:
    async def story(play: Play) -> None:
        project = await play.project(config={"allowed_actions": []})
        for number in range(QUESTIONS_MAX + 8):
            play.tracker.put(f"MCU-{number}")
        await play.cycle()
        for number in range(QUESTIONS_MAX + 8):
            play.tracker.block(f"MCU-{number}")
        play.clock.advance(INTERVAL_S)
        (cycle,) = (await play.loop().tick()).cycles
        assert len(cycle.signals) == QUESTIONS_MAX + 8
        assert len(await play.escalations(project)) == QUESTIONS_MAX

    played(story)
