"""The loop: when it goes round, what it does when something is wrong, and that it tells everything once."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from agenticpm.domain.contents import ArtefactType
from agenticpm.domain.tickets import Draft, Milestone, Plan, Stage, Writing
from agenticpm.domain.writers.rules import RulesWriter
from agenticpm.model import agent_settings, artefacts, patterns, projects
from agenticpm.model.entities import Integration, Project
from agenticpm.model.events import get_now
from agenticpm.workers.cycle import SIGNALS_PER_COMMIT
from agenticpm.workers.sync import MAIL_PAGES_MAX, MAX_ROUNDS, PAGES_AT_ONCE
from holdfast import sweep_buckets
from holdfast.core.errors import ExternalServiceFailed, ExternalServiceRefused, error_label
from tests.unit.agenticpm.loop_play import INTERVAL_S, Play, PlayTracker, nothing, played

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S


# --- when ---------------------------------------------------------------------------------------------------


@pytest.mark.proves("AP-X10")
def test_a_day_has_a_cycle_for_every_interval_of_its_working_hours_and_none_outside() -> None:
    async def story(play: Play) -> None:
        project = await play.project()
        beats = Counter[bool]()
        play.clock.advance(10 * HOUR_S)
        for _ in range(24 * 12):
            play.clock.advance(300)
            turn = await play.loop().tick()
            beats[bool(turn.cycles)] += 1
        assert beats[True] == 40
        zone = agent_settings.get_zone("Australia/Sydney")
        hours = {each.created_at.astimezone(zone).hour for each in await play.events(project, "heartbeat")}
        assert hours == set(range(8, 18))

    played(story)


def test_outside_working_hours_it_says_when_they_begin() -> None:
    async def story(play: Play) -> None:
        await play.project()
        play.clock.advance(10 * HOUR_S)
        turn = await play.loop().tick()
        assert turn.skip_reason == "outside working hours; the next start is 2026-02-04T21:00:00+00:00"

    played(story)


def test_a_project_is_due_when_its_interval_is_over_and_not_before() -> None:
    async def story(play: Play) -> None:
        await play.project()
        assert len((await play.loop().tick()).cycles) == 1
        play.clock.advance(INTERVAL_S - 1)
        assert (await play.loop().tick()).skip_reason == "no project is due"
        play.clock.advance(1)
        assert len((await play.loop().tick()).cycles) == 1
        await agent_settings.put(play.stores, "polling_interval_minutes", 1)
        play.clock.advance(60)
        assert len((await play.loop().tick()).cycles) == 1

    played(story)


@pytest.mark.parametrize("status", ["paused", "archived"])
def test_a_project_that_is_not_active_is_not_read(status: str) -> None:
    async def story(play: Play) -> None:
        project = await play.project()
        await projects.change_status(play.stores, project.id, status)
        assert (await play.turn()).skip_reason == "no project is due"
        assert play.tracker.asked == []
        await projects.change_status(play.stores, project.id, "active")
        assert (await play.cycle()).errors == []

    played(story)


def test_who_pauses_a_project_or_lets_the_agent_do_less_is_heard_in_the_turn_that_has_begun() -> None:
    async def story(play: Play) -> None:
        made = [
            await play.project(name=f"Project {number}", source_project_key=f"P{number}")
            for number in range(3)
        ]
        play.tracker.block("MCU-1")
        order = [each.id for each in await play.stores.all(patterns.projects_in())]
        _, second, third = (next(each for each in made if each.id == id) for id in order)

        async def people_change_their_minds() -> None:
            if len(play.tracker.asked) == 1:
                await projects.change_status(play.stores, second.id, "paused")
                await projects.change(play.stores, third.id, autonomy_level="monitoring")

        play.tracker.meanwhile = people_change_their_minds
        turn = await play.turn()
        assert [each.project_id for each in turn.cycles] == [order[0], third.id]
        assert await play.signals(second) == []
        assert await play.signals(third) == ["blocked:MCU-1"]
        assert await play.actions(third) == ()

    played(story)


# --- one instance -------------------------------------------------------------------------------------------


def test_while_one_instance_holds_the_lease_another_does_nothing() -> None:
    async def story(play: Play) -> None:
        project = await play.project()
        lease = await patterns.LEASE.take(play.stores, patterns.LOOP)
        before = await play.items()
        turn = await play.loop().tick()
        assert turn.skip_reason is not None and turn.skip_reason.startswith("another instance runs the loop")
        assert await play.items() == before and play.tracker.asked == []
        # One that gave no sign of life is taken over, by a higher token.
        play.clock.advance(patterns.LEASE_S + 1)
        assert len((await play.loop().tick()).cycles) == 1
        (beat,) = await play.events(project, "heartbeat")
        assert (beat.detail or {})["token"] == lease.token + 1

    played(story)


def test_of_two_that_begin_at_once_one_goes_round() -> None:
    async def story(play: Play) -> None:
        project = await play.project()
        play.tracker.block("MCU-1")
        turns = await asyncio.gather(*(play.loop().tick() for _ in range(4)))
        assert sum(len(each.cycles) for each in turns) == 1
        assert await play.signals(project) == ["blocked:MCU-1"]

    played(story)


def test_one_that_slept_through_the_loss_of_its_lease_writes_nothing() -> None:
    async def story(play: Play) -> None:
        project = await play.project()
        play.tracker.block("MCU-1")

        async def another_takes_over() -> None:
            play.clock.advance(patterns.LEASE_S + 1)
            await patterns.LEASE.take(play.stores, patterns.LOOP)

        play.tracker.meanwhile = another_takes_over
        turn = await play.loop().tick()
        assert turn.skip_reason is not None and turn.skip_reason.startswith("another instance took over")
        assert await play.signals(project) == []
        assert await play.events(project, "heartbeat") == []
        assert await play.mark(project, "jira", "last_sync") is None
        assert await play.actions(project) == ()

    played(story)


# --- what goes wrong ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "failure",
    [
        ExternalServiceFailed("no answer", may_be_done=False),
        ExternalServiceRefused("400", "The project does not exist."),
        ValueError("the answer is no ticket"),
        KeyError("fields"),
        RuntimeError("nobody thought of this"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_tracker_that_fails_is_told_as_an_error_and_the_rest_goes_on(failure: Exception) -> None:
    async def story(play: Play) -> None:
        well = PlayTracker(play.clock)
        well.block("555")
        play.parties.there[Integration.asana] = well
        first = await play.project(config={"mail": True})
        other = await play.project(name="Payments", source="asana", source_project_key="P")
        play.tracker.put("MCU-1")
        await play.turn()
        synced = await play.mark(first, "jira", "last_sync")
        play.tracker.block("MCU-1")
        play.tracker.fails = failure
        play.mailbox.receive("MCU-1 is late")

        turn = await play.turn()

        assert {each.project_id: each.errors for each in turn.cycles} == {first.id: ["tracker"], other.id: []}
        (error,) = await play.events(first, "error")
        assert error.severity == "error" and str(failure) in error.summary
        assert error.detail == {"part": "tracker", "error": error_label(failure)}
        assert await play.signals(first) == ["mail_mention:MCU-1"]
        assert await play.mark(first, "jira", "last_sync") == synced
        assert len(await play.events(first, "heartbeat")) == 2
        assert await play.signals(other) == ["blocked:555"]

        play.tracker.fails = None
        await play.turn()
        assert await play.signals(first) == ["mail_mention:MCU-1", "blocked:MCU-1"]
        assert len(await play.events(first, "error")) == 1

    played(story)


def test_a_tracker_that_is_not_configured_is_told_as_an_error() -> None:
    async def story(play: Play) -> None:
        project = await play.project(source="asana")
        assert (await play.cycle()).errors == ["tracker"]
        (error,) = await play.events(project, "error")
        assert "asana is not configured" in error.summary

    played(story)


def test_a_tracker_that_goes_away_between_two_pages_leaves_nothing_half_written() -> None:
    async def story(play: Play) -> None:
        project = await play.project()
        play.tracker.page_size, play.tracker.fails_at = 2, 2
        for number in range(5):
            play.tracker.block(f"MCU-{number}")
        assert (await play.cycle()).errors == ["tracker"]
        assert await play.signals(project) == []
        assert await play.mark(project, "jira", "last_sync") is None
        assert await play.stores.run(patterns.artefact(project.id, ArtefactType.delivery_state)) is None
        assert (await play.cycle()).errors == []
        assert sorted(await play.signals(project)) == [f"blocked:MCU-{number}" for number in range(5)]

    played(story)


def test_a_tracker_that_always_tells_of_more_is_not_followed_for_ever() -> None:
    async def story(play: Play) -> None:
        project = await play.project()
        play.tracker.put("MCU-1")
        play.tracker.stands_still = True
        assert (await play.cycle()).errors == ["tracker"]
        (error,) = await play.events(project, "error")
        assert "Invalid response" in error.summary

    played(story)


def test_thresholds_that_are_none_are_told_as_an_error_of_their_project() -> None:
    async def story(play: Play) -> None:
        project = await play.project()
        # As if it had come past the door.
        nonsense = {"thresholds": {"stale_working_days": "soon"}}
        await play.stores.run(Project.put(project.model_copy(update={"config": nonsense})))
        play.tracker.put("MCU-1")
        assert (await play.cycle()).errors == ["tracker"]
        (error,) = await play.events(project, "error")
        assert "stale_working_days" in error.summary
        assert await play.mark(project, "jira", "last_sync") is None

    played(story)


# --- everything once ----------------------------------------------------------------------------------------


def test_a_quiet_cycle_writes_its_heartbeat_and_nothing_else() -> None:
    async def story(play: Play) -> None:
        project = await play.project(config={"mail": True})
        play.tracker.block("MCU-1")
        play.mailbox.receive("MCU-1 is late")
        await play.cycle()
        await play.cycle()
        before = await play.items()
        cycle = await play.cycle()
        after = await play.items()
        assert (cycle.tickets, cycle.signals, cycle.artefacts, cycle.errors) == (0, [], [], [])
        (beat,) = set(after) - set(before) - {key for key in after if key[0] == "GLOBAL"}
        assert after[beat]["eventType"] == "heartbeat"
        changed = {key for key in before if after[key] != before[key]}
        assert changed == {
            (f"PROJECT#{project.id}", "CHECKPOINT#agent#last_cycle"),
            ("AGENT", "LEASE#loop"),
        }
        assert len(after) == len(before) + 2

    played(story)


def test_more_signals_than_a_commit_holds_come_in_several_and_each_once() -> None:
    async def story(play: Play) -> None:
        project = await play.project()
        for number in range(2 * SIGNALS_PER_COMMIT + 7):
            play.tracker.block(f"MCU-{number}")
        steps: list[str] = []
        cycle = await play.cycle(play.loop(steps.append))
        assert steps.count("committed") == 3
        assert len(cycle.signals) == 37
        told = await play.signals(project)
        assert sorted(told) == sorted(f"blocked:MCU-{number}" for number in range(37))
        assert (await play.cycle()).signals == []

    played(story)


def test_a_first_sync_of_hundreds_of_tickets_over_many_pages_tells_each_once() -> None:
    async def story(play: Play) -> None:
        project = await play.project(autonomy_level="artefact")
        play.tracker.page_size = 5
        for number in range(400):
            play.tracker.put(f"MCU-{number}", is_blocked=number % 100 == 7)
        cycle = await play.cycle()
        assert (cycle.tickets, cycle.errors) == (400, [])
        assert play.tracker.asked == [None, *(str(each) for each in range(5, 400, 5))]
        blocked = [each for each in await play.signals(project) if each.startswith("blocked")]
        assert sorted(blocked) == [f"blocked:MCU-{number}" for number in (107, 207, 307, 7)]
        summary = await play.stores.run(patterns.artefact(project.id, ArtefactType.backlog_summary))
        assert summary is not None
        content = await artefacts.load_content(play.stores, summary)
        assert content["summary"]["total_items"] == 400

    played(story)


def test_a_first_sync_that_is_cut_off_goes_on_where_it_was_and_no_artefact_is_of_half_a_project() -> None:
    async def story(play: Play) -> None:
        project = await play.project(autonomy_level="artefact")
        play.tracker.page_size = 2
        for number in range(100):
            play.tracker.block(f"MCU-{number}")
        play.tracker.fails_at = PAGES_AT_ONCE + 3
        cycle = await play.cycle()
        assert (cycle.tickets, cycle.errors) == (2 * PAGES_AT_ONCE, ["tracker"])
        assert await play.mark(project, "jira", "last_sync") == str(2 * PAGES_AT_ONCE)
        play.tracker.fails = ExternalServiceFailed("no answer", may_be_done=False)
        await play.cycle()
        assert len(await play.stores.all(patterns.artefacts(project.id))) == 0
        play.tracker.fails = None
        cycle = await play.cycle()
        assert (cycle.tickets, cycle.errors) == (100 - 2 * PAGES_AT_ONCE, [])
        assert await counted(play, project) == 100
        assert sorted(await play.signals(project)) == sorted(f"blocked:MCU-{each}" for each in range(100))

    played(story)


class Died(BaseException):
    """As a kill: nothing catches it."""


def test_broken_off_at_any_step_nothing_is_told_twice_and_nothing_is_left_out() -> None:
    died: list[str] = []

    async def story(play: Play) -> None:
        project = await play.project(config={"mail": True})
        play.tracker.page_size = 7
        for number in range(20):
            play.tracker.block(f"MCU-{number}")
        for number in range(20):
            play.mailbox.receive(f"MCU-3, letter {number}")
        died.append(await _broken_off(play, len(died) + 1))
        assert (await play.turn()).cycles
        expected = [*(f"blocked:MCU-{number}" for number in range(20)), *["mail_mention:MCU-3"] * 20]
        assert sorted(await play.signals(project)) == sorted(expected)
        acted = [each.description for each in await play.actions(project)]
        assert len(acted) == len(set(acted)) == 20
        kept = await play.stores.all(patterns.artefacts(project.id))
        assert {each.type: each.version for each in kept} == dict.fromkeys(ArtefactType, 1)

    while "" not in died:
        played(story)
    assert Counter(died)["commit"] == 4
    assert {"tracker", "committed", "mail", "artefacts commit", "artefacts committed", "heartbeat"} <= set(
        died
    )


async def _broken_off(play: Play, number: int) -> str:
    """A turn that dies at its so-manieth step: which it was, and nothing where it has not so many."""
    steps: list[str] = []

    def step(name: str) -> None:
        steps.append(name)
        if len(steps) == number:
            raise Died(name)

    try:
        await play.loop(step).tick()
    except Died as death:
        return str(death)
    return ""


@pytest.mark.parametrize("how", ["lost", "reset"])
def test_a_tracker_that_is_read_anew_tells_no_signal_twice(how: str) -> None:
    async def story(play: Play) -> None:
        due = get_now(play.clock) - timedelta(days=1)
        play.tracker.planned = Plan(milestones=(Milestone(name="Beta", due_at=due),))
        project = await play.project(config={"mail": True, "stakeholders": ["sponsor@example.com"]})
        for number in range(SIGNALS_PER_COMMIT + 2):
            play.tracker.block(f"MCU-{number}")
        play.tracker.put("MCU-50", milestone="Beta")
        play.mailbox.receive("MCU-1 is late")
        await play.cycle()
        play.tracker.put("MCU-2", is_blocked=False)
        await play.cycle()
        told = await play.signals(project)
        assert {"slipping_milestone:Beta", "mail_mention:MCU-1", "unblocked:MCU-2"} <= set(told)
        acted, asked = await play.actions(project), await play.escalations(project)

        if how == "lost":
            await _lose_snapshot(play, project)
        else:
            play.tracker.is_reset = True
        play.tracker.block("MCU-77")
        cycle = await play.cycle()

        assert cycle.tickets == len(play.tracker.log)
        assert [each.key for each in cycle.signals] == ["blocked:MCU-77"]
        assert await play.signals(project) == [*told, "blocked:MCU-77"]
        assert len(await play.actions(project)) == len(acted) + 1
        assert await play.escalations(project) == asked
        # What was told before is known as before: that it is over is told.
        play.tracker.put("MCU-3", is_blocked=False)
        assert [each.key for each in (await play.cycle()).signals] == ["unblocked:MCU-3"]

    played(story)


async def _lose_snapshot(play: Play, project: Project) -> None:
    """The pointer to nothing, as when somebody has emptied the bucket."""
    seen = await play.stores.run(patterns.checkpoint(project.id, "jira", "snapshot"))
    assert seen is not None
    lost = seen.model_copy(update={"checkpoint_value": "0" * 64})
    await play.stores.run(patterns.put_checkpoint(lost, seen.checkpoint_value))


def test_mail_that_comes_while_the_tracker_is_to_be_read_anew_waits_and_hides_no_ticket() -> None:
    async def story(play: Play) -> None:
        project = await play.project(config={"mail": True})
        for number in range(3):
            play.tracker.put(f"MCU-{number}")
        await play.cycle()
        await _lose_snapshot(play, project)
        play.tracker.fails = ExternalServiceFailed("no answer", may_be_done=False)
        play.mailbox.receive("MCU-1 is late")
        assert (await play.cycle()).errors == ["tracker"]
        assert await play.signals(project) == []
        play.tracker.fails = None
        cycle = await play.cycle()
        assert (cycle.tickets, [each.key for each in cycle.signals]) == (3, ["mail_mention:MCU-1"])

    played(story)


def test_a_snapshot_that_is_needed_outlives_its_lifetime() -> None:
    async def story(play: Play) -> None:
        play.clock.advance(3 * HOUR_S)
        project = await play.project(autonomy_level="monitoring")
        play.tracker.put("MCU-1", stage=Stage.to_do, status="To Do")
        await play.cycle()
        pointers = {await play.mark(project, "jira", "snapshot")}
        for _ in range(patterns.SNAPSHOT_DAYS * 2):
            play.clock.advance(DAY_S)
            assert (await play.loop().tick()).cycles
            await sweep_buckets(play.stores, [patterns.snapshots.bucket])
            sha256 = await play.mark(project, "jira", "snapshot")
            assert sha256 is not None
            assert (await play.stores.run(patterns.kept_snapshot(project.id, sha256))).body
            pointers.add(sha256)
        assert len(pointers) == 4
        play.tracker.block("MCU-1")
        play.clock.advance(DAY_S)
        (cycle,) = (await play.loop().tick()).cycles
        assert [each.key for each in cycle.signals] == ["blocked:MCU-1"]

    played(story)


def test_once_a_day_all_is_read_anew_so_that_what_was_deleted_counts_no_more() -> None:
    async def story(play: Play) -> None:
        project = await play.project(autonomy_level="artefact")
        for number in (1, 2):
            play.tracker.put(f"MCU-{number}", stage=Stage.to_do, status="To Do")
        await play.cycle()
        play.tracker.log = [each for each in play.tracker.log if each[0].key != "MCU-2"]
        await play.cycle()
        assert await counted(play, project) == 2
        play.clock.advance(DAY_S)
        await play.cycle()
        assert await counted(play, project) == 1
        assert play.tracker.asked.count(None) == 2

    played(story)


def test_a_day_on_which_not_all_could_be_read_anew_is_made_up_for() -> None:
    async def story(play: Play) -> None:
        project = await play.project(autonomy_level="artefact")
        for number in (1, 2):
            play.tracker.put(f"MCU-{number}", stage=Stage.to_do, status="To Do")
        await play.cycle()
        play.tracker.log = [each for each in play.tracker.log if each[0].key != "MCU-2"]
        play.clock.advance(DAY_S)
        play.tracker.fails_at = len(play.tracker.asked) + 1
        assert (await play.cycle()).errors == ["tracker"]
        assert await counted(play, project) == 2
        assert (await play.cycle()).errors == []
        assert await counted(play, project) == 1

    played(story)


async def counted(play: Play, project: Project) -> int:
    found = await play.stores.run(patterns.artefact(project.id, ArtefactType.backlog_summary))
    assert found is not None
    return int(found.content["summary"]["total_items"])


def test_a_tracker_that_always_has_more_to_tell_keeps_no_other_project_waiting() -> None:
    async def story(play: Play) -> None:
        await play.project(autonomy_level="monitoring")
        play.tracker.put("MCU-1")
        told = 0

        async def more() -> None:
            nonlocal told
            told += 1
            play.tracker.put(f"MCU-{told + 1}")

        play.tracker.page_size, play.tracker.meanwhile = 1, more
        (cycle,) = (await play.loop().tick()).cycles
        assert cycle.tickets == MAX_ROUNDS * PAGES_AT_ONCE
        play.tracker.meanwhile = nothing
        play.clock.advance(INTERVAL_S)
        (cycle,) = (await play.loop().tick()).cycles
        assert cycle.tickets == 1

    played(story)


# --- mail ---------------------------------------------------------------------------------------------------


def test_mail_is_read_page_by_page_and_goes_on_from_the_last_token() -> None:
    async def story(play: Play) -> None:
        project = await play.project(config={"mail": True})
        play.tracker.put("MCU-1")
        play.mailbox.page_size, play.mailbox.fails_at = 2, 3
        for number in range(5):
            play.mailbox.receive(f"MCU-1, letter {number}")
        assert (await play.cycle()).errors == ["mail"]
        assert await play.mark(project, "outlook", "delta_token") == "4"
        assert len(await play.signals(project)) == 4
        assert (await play.cycle()).errors == []
        assert play.mailbox.asked == [None, "2", "4", "4"]
        summaries = [each.summary for each in await play.events(project, "signal_detected")]
        assert summaries == [f"A mail mentions MCU-1: MCU-1, letter {number}" for number in range(5)]

    played(story)


def test_one_page_with_more_mails_than_a_commit_holds_is_told_whole() -> None:
    async def story(play: Play) -> None:
        project = await play.project(config={"mail": True})
        play.tracker.put("MCU-1")
        for number in range(40):
            play.mailbox.receive(f"MCU-1, letter {number}")
        steps: list[str] = []
        cycle = await play.cycle(play.loop(steps.append))
        assert len(cycle.signals) == 40
        assert len(await play.signals(project)) == 40
        assert await play.mark(project, "outlook", "delta_token") == "40"
        # The tracker's, and three of the mails.
        assert steps.count("committed") == 4

    played(story)


def test_a_mailbox_without_end_is_left_for_the_next_cycle() -> None:
    async def story(play: Play) -> None:
        project = await play.project(config={"mail": True})
        play.tracker.put("MCU-1")
        play.mailbox.page_size = 1
        for _ in range(MAIL_PAGES_MAX + 3):
            play.mailbox.receive("Lunch")
        await play.cycle()
        assert await play.mark(project, "outlook", "delta_token") == str(MAIL_PAGES_MAX)
        await play.cycle()
        assert await play.mark(project, "outlook", "delta_token") == str(MAIL_PAGES_MAX + 3)

    played(story)


def test_a_project_that_wants_no_mail_reads_none() -> None:
    async def story(play: Play) -> None:
        await play.project()
        await play.cycle()
        assert play.mailbox.asked == []

    played(story)


# --- artefacts ----------------------------------------------------------------------------------------------


class Interrupted(RulesWriter):
    """While it writes for the first time, a person edits the RAID log."""

    def __init__(self, play: Play, project: Project) -> None:
        super().__init__()
        self.play, self.project, self.wrote = play, project, 0

    async def write(self, writing: Writing) -> Draft:
        self.wrote += 1
        if self.wrote == 1:
            seen = await self.play.stores.run(patterns.artefact(self.project.id, ArtefactType.raid_log))
            assert seen is not None
            await artefacts.update(
                self.play.stores.for_component("api"),
                self.project.id,
                ArtefactType.raid_log,
                {"items": [*seen.content["items"], RISK]},
                seen.version,
            )
        return await super().write(writing)


RISK: dict[str, Any] = {
    "id": "R900",
    "type": "risk",
    "title": "The vendor may be late",
    "description": "",
    "severity": "high",
    "status": "open",
    "owner": "Ada",
    "raised_date": "2026-02-01T00:00:00Z",
    "due_date": None,
    "mitigation": None,
    "resolution": None,
    "resolved_date": None,
    "source": "user_added",
    "source_reference": "",
    "last_reviewed": "2026-02-01T00:00:00Z",
}


def test_what_a_person_wrote_meanwhile_is_not_overwritten_and_the_next_cycle_decides_anew() -> None:
    async def story(play: Play) -> None:
        project = await play.project()
        play.tracker.put("MCU-1")
        await play.cycle()
        play.tracker.block("MCU-1")
        cycle = await play.cycle(play.loop(rules=Interrupted(play, project)))
        assert cycle.errors == ["artefacts"]
        log = await _artefact(play, project, ArtefactType.raid_log)
        assert [each["id"] for each in log.content["items"]] == ["R900"]
        state = await _artefact(play, project, ArtefactType.delivery_state)
        assert (state.version, state.content["blockers"]) == (1, [])

        assert (await play.cycle()).errors == []
        log = await _artefact(play, project, ArtefactType.raid_log)
        assert "R900" in [each["id"] for each in log.content["items"]] and len(log.content["items"]) > 1
        state = await _artefact(play, project, ArtefactType.delivery_state)
        assert [each["source_ticket"] for each in state.content["blockers"]] == ["MCU-1"]

    played(story)


async def _artefact(play: Play, project: Project, type: ArtefactType) -> Any:
    found = await play.stores.run(patterns.artefact(project.id, type))
    assert found is not None
    return found


def test_a_projects_own_thresholds_hold_for_its_signals_and_its_artefacts() -> None:
    async def story(play: Play) -> None:
        strict = await play.project(name="Strict", config={"thresholds": {"stale_working_days": 1}})
        await play.project(name="Patient", source_project_key="P")
        play.tracker.put("MCU-1")
        await play.turn()
        play.clock.advance(2 * DAY_S)
        turn = await play.loop().tick()
        told = {each.project_id: [signal.key for signal in each.signals] for each in turn.cycles}
        assert told[strict.id] == ["stale:MCU-1"]
        assert sorted(map(len, told.values())) == [0, 1]
        summary = await _artefact(play, strict, ArtefactType.backlog_summary)
        assert [each["flag"] for each in summary.content["highlights"]] == ["stale"]

    played(story)


def test_the_heartbeat_says_what_the_cycle_did() -> None:
    async def story(play: Play) -> None:
        project = await play.project()
        play.tracker.block("MCU-1")
        await play.cycle()
        (beat,) = await play.events(project, "heartbeat")
        told = beat.detail or {}
        assert (told["tickets"], told["signals"], told["errors"]) == (1, 1, 0)
        assert sorted(told["artefacts"]) == sorted(ArtefactType)

    played(story)


def test_without_projects_nothing_is_done_and_no_lease_is_taken() -> None:
    async def story(play: Play) -> None:
        assert (await play.loop().tick()).skip_reason == "no project is due"
        assert ("AGENT", "LEASE#loop") not in await play.items()

    played(story)
