"""Tests of the loop on the loop harness: when it runs, how it handles failures, and that it reports once."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from agenticpm.domain.contents import ArtefactType
from agenticpm.domain.tickets import Draft, Milestone, Plan, TicketStage, Writing
from agenticpm.domain.writers.rules import RulesWriter
from agenticpm.model import agent_settings, artefacts, patterns, projects
from agenticpm.model.entities import Integration, Project
from agenticpm.model.events import get_now
from agenticpm.workers.cycle import SIGNALS_PER_COMMIT
from agenticpm.workers.sync import MAX_MAIL_PAGES, MAX_ROUNDS, PAGES_AT_ONCE
from holdfast.core.errors import ExternalServiceFailed, ExternalServiceRefused, error_label
from holdfast.runtime import sweep_buckets
from tests.systems.agenticpm.unit.sample_snapshots import make_item
from tests.systems.agenticpm.unit.workers.loop_harness import (
    INTERVAL_S,
    FakeTracker,
    Harness,
    do_nothing,
    open_harness,
)

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S


# --- schedule and single instance ---------------------------------------------------------------------------


@pytest.mark.proves("AP-X10")
async def test_day_has_a_cycle_per_interval_of_its_working_hours_and_none_outside(harness: Harness) -> None:
    project = await harness.create_project()
    beats = Counter[bool]()
    harness.clock.advance(10 * HOUR_S)
    for _ in range(24 * 12):
        harness.clock.advance(300)
        turn = await harness.make_loop().tick()
        beats[bool(turn.cycles)] += 1
    assert beats[True] == 40
    zone = agent_settings.get_zone("Australia/Sydney")
    hours = {each.created_at.astimezone(zone).hour for each in await harness.events(project, "heartbeat")}
    assert hours == set(range(8, 18))


async def test_reports_the_next_start_outside_working_hours(harness: Harness) -> None:
    await harness.create_project()
    harness.clock.advance(10 * HOUR_S)
    turn = await harness.make_loop().tick()
    assert turn.skip_reason == "outside working hours; the next start is 2026-02-04T21:00:00+00:00"


async def test_project_is_due_after_its_interval_and_not_before(harness: Harness) -> None:
    await harness.create_project()
    assert len((await harness.make_loop().tick()).cycles) == 1
    harness.clock.advance(INTERVAL_S - 1)
    assert (await harness.make_loop().tick()).skip_reason == "no project is due"
    harness.clock.advance(1)
    assert len((await harness.make_loop().tick()).cycles) == 1
    await agent_settings.put(harness.stores, "polling_interval_minutes", 1)
    harness.clock.advance(60)
    assert len((await harness.make_loop().tick()).cycles) == 1


@pytest.mark.parametrize("status", ["paused", "archived"])
async def test_does_not_read_an_inactive_project(harness: Harness, status: str) -> None:
    project = await harness.create_project()
    await projects.change_status(harness.stores, project.id, status)
    assert (await harness.run_turn()).skip_reason == "no project is due"
    assert harness.tracker.checkpoints == []
    await projects.change_status(harness.stores, project.id, "active")
    assert (await harness.run_cycle()).errors == []


async def test_pause_or_lower_level_takes_effect_in_the_running_turn(harness: Harness) -> None:
    made = [
        await harness.create_project(name=f"Project {number}", source_project_key=f"P{number}")
        for number in range(3)
    ]
    harness.tracker.block("MCU-1")
    order = [each.id for each in await harness.stores.all(patterns.projects_in())]
    _, second, third = (next(each for each in made if each.id == id) for id in order)

    async def people_change_their_minds() -> None:
        if len(harness.tracker.checkpoints) == 1:
            await projects.change_status(harness.stores, second.id, "paused")
            await projects.change(harness.stores, third.id, autonomy_level="monitoring")

    harness.tracker.on_fetch = people_change_their_minds
    turn = await harness.run_turn()
    assert [each.project_id for each in turn.cycles] == [order[0], third.id]
    assert await harness.signals(second) == []
    assert await harness.signals(third) == ["blocked:MCU-1"]
    assert await harness.actions(third) == ()


async def test_second_instance_does_nothing_while_the_lease_is_held(harness: Harness) -> None:
    project = await harness.create_project()
    lease = await patterns.LEASE.take(harness.stores, patterns.LOOP)
    before = await harness.items()
    turn = await harness.make_loop().tick()
    assert turn.skip_reason is not None and turn.skip_reason.startswith("another instance runs the loop")
    assert await harness.items() == before and harness.tracker.checkpoints == []
    # An instance without a sign of life is taken over with a higher token.
    harness.clock.advance(patterns.LEASE_S + 1)
    assert len((await harness.make_loop().tick()).cycles) == 1
    (beat,) = await harness.events(project, "heartbeat")
    assert (beat.detail or {})["token"] == lease.token + 1


async def test_instance_that_lost_its_lease_while_asleep_writes_nothing(harness: Harness) -> None:
    project = await harness.create_project()
    harness.tracker.block("MCU-1")

    async def another_takes_over() -> None:
        harness.clock.advance(patterns.LEASE_S + 1)
        await patterns.LEASE.take(harness.stores, patterns.LOOP)

    harness.tracker.on_fetch = another_takes_over
    turn = await harness.make_loop().tick()
    assert turn.skip_reason is not None and turn.skip_reason.startswith("another instance took over")
    assert await harness.signals(project) == []
    assert await harness.events(project, "heartbeat") == []
    assert await harness.checkpoint(project, "jira", "last_sync") is None
    assert await harness.actions(project) == ()


# --- failures -----------------------------------------------------------------------------------------------


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
async def test_records_a_tracker_failure_as_an_error_and_continues(
    harness: Harness, failure: Exception
) -> None:
    well = FakeTracker(harness.clock)
    well.block("555")
    harness.clients.configured[Integration.asana] = well
    first = await harness.create_project(config={"mail": True})
    other = await harness.create_project(name="Payments", source="asana", source_project_key="P")
    harness.tracker.put("MCU-1")
    await harness.run_turn()
    synced = await harness.checkpoint(first, "jira", "last_sync")
    harness.tracker.block("MCU-1")
    harness.tracker.fails = failure
    harness.mailbox.receive("MCU-1 is late")

    turn = await harness.run_turn()

    assert {each.project_id: each.errors for each in turn.cycles} == {first.id: ["tracker"], other.id: []}
    (error,) = await harness.events(first, "error")
    assert error.severity == "error" and str(failure) in error.summary
    assert error.detail == {"part": "tracker", "error": error_label(failure)}
    assert await harness.signals(first) == ["mail_mention:MCU-1"]
    assert await harness.checkpoint(first, "jira", "last_sync") == synced
    assert len(await harness.events(first, "heartbeat")) == 2
    assert await harness.signals(other) == ["blocked:555"]

    harness.tracker.fails = None
    await harness.run_turn()
    assert await harness.signals(first) == ["mail_mention:MCU-1", "blocked:MCU-1"]
    assert len(await harness.events(first, "error")) == 1


async def test_tracker_failure_between_two_pages_leaves_nothing_half_written(harness: Harness) -> None:
    project = await harness.create_project()
    harness.tracker.page_size, harness.tracker.fails_at = 2, 2
    for number in range(5):
        harness.tracker.block(f"MCU-{number}")
    assert (await harness.run_cycle()).errors == ["tracker"]
    assert await harness.signals(project) == []
    assert await harness.checkpoint(project, "jira", "last_sync") is None
    assert await harness.stores.run(patterns.artefact(project.id, ArtefactType.delivery_state)) is None
    assert (await harness.run_cycle()).errors == []
    assert sorted(await harness.signals(project)) == [f"blocked:MCU-{number}" for number in range(5)]


async def test_fails_if_the_checkpoint_of_the_tracker_does_not_advance(harness: Harness) -> None:
    project = await harness.create_project()
    harness.tracker.put("MCU-1")
    harness.tracker.is_stuck = True
    assert (await harness.run_cycle()).errors == ["tracker"]
    (error,) = await harness.events(project, "error")
    assert "Invalid response" in error.summary


async def test_records_invalid_thresholds_as_an_error_of_their_project(harness: Harness) -> None:
    project = await harness.create_project()
    # Bypass the check of the API.
    nonsense = {"thresholds": {"stale_working_days": "soon"}}
    await harness.stores.run(Project.put(project.model_copy(update={"config": nonsense})))
    harness.tracker.put("MCU-1")
    assert (await harness.run_cycle()).errors == ["tracker"]
    (error,) = await harness.events(project, "error")
    assert "stale_working_days" in error.summary
    assert await harness.checkpoint(project, "jira", "last_sync") is None


# --- exactly once -------------------------------------------------------------------------------------------


async def test_quiet_cycle_writes_only_its_heartbeat(harness: Harness) -> None:
    project = await harness.create_project(config={"mail": True})
    harness.tracker.block("MCU-1")
    harness.mailbox.receive("MCU-1 is late")
    await harness.run_cycle()
    await harness.run_cycle()
    before = await harness.items()
    cycle = await harness.run_cycle()
    after = await harness.items()
    assert (cycle.tickets, cycle.signals, cycle.artefacts, cycle.errors) == (0, [], [], [])
    (beat,) = set(after) - set(before) - {key for key in after if key[0] == "GLOBAL"}
    assert after[beat]["eventType"] == "heartbeat"
    changed = {key for key in before if after[key] != before[key]}
    assert changed == {
        (f"PROJECT#{project.id}", "CHECKPOINT#agent#last_cycle"),
        ("AGENT", "LEASE#loop"),
    }
    assert len(after) == len(before) + 2


async def test_writes_more_signals_than_a_commit_holds_in_several_commits_each_once(harness: Harness) -> None:
    project = await harness.create_project()
    for number in range(2 * SIGNALS_PER_COMMIT + 7):
        harness.tracker.block(f"MCU-{number}")
    steps: list[str] = []
    cycle = await harness.run_cycle(harness.make_loop(steps.append))
    assert steps.count("committed") == 3
    assert len(cycle.signals) == 37
    signals = await harness.signals(project)
    assert sorted(signals) == sorted(f"blocked:MCU-{number}" for number in range(37))
    assert (await harness.run_cycle()).signals == []


async def test_first_sync_of_hundreds_of_tickets_reports_each_once(harness: Harness) -> None:
    project = await harness.create_project(autonomy_level="artefact")
    harness.tracker.page_size = 5
    for number in range(400):
        harness.tracker.put(f"MCU-{number}", is_blocked=number % 100 == 7)
    cycle = await harness.run_cycle()
    assert (cycle.tickets, cycle.errors) == (400, [])
    assert harness.tracker.checkpoints == [None, *(str(each) for each in range(5, 400, 5))]
    blocked = [each for each in await harness.signals(project) if each.startswith("blocked")]
    assert sorted(blocked) == [f"blocked:MCU-{number}" for number in (107, 207, 307, 7)]
    assert await harness.count_tickets(project) == 400


async def test_interrupted_first_sync_resumes_and_writes_no_artefact_of_half_a_project(
    harness: Harness,
) -> None:
    project = await harness.create_project(autonomy_level="artefact")
    harness.tracker.page_size = 2
    for number in range(100):
        harness.tracker.block(f"MCU-{number}")
    harness.tracker.fails_at = PAGES_AT_ONCE + 3
    cycle = await harness.run_cycle()
    assert (cycle.tickets, cycle.errors) == (2 * PAGES_AT_ONCE, ["tracker"])
    assert await harness.checkpoint(project, "jira", "last_sync") == str(2 * PAGES_AT_ONCE)
    harness.tracker.fails = ExternalServiceFailed("no answer", may_be_done=False)
    await harness.run_cycle()
    assert len(await harness.stores.all(patterns.artefacts(project.id))) == 0
    harness.tracker.fails = None
    cycle = await harness.run_cycle()
    assert (cycle.tickets, cycle.errors) == (100 - 2 * PAGES_AT_ONCE, [])
    assert await harness.count_tickets(project) == 100
    assert sorted(await harness.signals(project)) == sorted(f"blocked:MCU-{each}" for each in range(100))


class Died(BaseException):
    """A simulated kill, which no handler catches."""


async def test_interruption_at_any_step_neither_repeats_nor_skips_a_report() -> None:
    """Use a new harness for each step, until a turn has fewer steps."""
    died: list[str] = []

    while "" not in died:
        async with open_harness() as harness:
            died.append(await _check_interruption(harness, len(died) + 1))
    assert Counter(died)["commit"] == 4
    assert {"tracker", "committed", "mail", "artefacts commit", "artefacts committed", "heartbeat"} <= set(
        died
    )


async def _check_interruption(harness: Harness, number: int) -> str:
    """Interrupt a turn at step `number` and check the next one. Return the name of the step."""
    project = await harness.create_project(config={"mail": True})
    harness.tracker.page_size = 7
    for each in range(20):
        harness.tracker.block(f"MCU-{each}")
        harness.mailbox.receive(f"MCU-3, letter {each}")
    died = await _run_until_step(harness, number)
    assert (await harness.run_turn()).cycles
    expected = [*(f"blocked:MCU-{each}" for each in range(20)), *["mail_mention:MCU-3"] * 20]
    assert sorted(await harness.signals(project)) == sorted(expected)
    acted = [each.description for each in await harness.actions(project)]
    assert len(acted) == len(set(acted)) == 20
    kept = await harness.stores.all(patterns.artefacts(project.id))
    assert {each.type: each.version for each in kept} == dict.fromkeys(ArtefactType, 1)
    return died


async def _run_until_step(harness: Harness, number: int) -> str:
    """Run a turn that dies at step `number`. Return the name of the step, or "" if there are fewer."""
    steps: list[str] = []

    def step(name: str) -> None:
        steps.append(name)
        if len(steps) == number:
            raise Died(name)

    try:
        await harness.make_loop(step).tick()
    except Died as death:
        return str(death)
    return ""


@pytest.mark.parametrize("how", ["lost", "reset"])
async def test_full_read_of_the_tracker_repeats_no_signal(harness: Harness, how: str) -> None:
    """The snapshot is lost, or the tracker reports a reset."""

    due = get_now(harness.clock) - timedelta(days=1)
    harness.tracker.planned = Plan(milestones=(Milestone(name="Beta", due_at=due),))
    project = await harness.create_project(config={"mail": True, "stakeholders": ["sponsor@example.com"]})
    for number in range(SIGNALS_PER_COMMIT + 2):
        harness.tracker.block(f"MCU-{number}")
    harness.tracker.put("MCU-50", milestone="Beta")
    harness.mailbox.receive("MCU-1 is late")
    await harness.run_cycle()
    harness.tracker.put("MCU-2", is_blocked=False)
    await harness.run_cycle()
    signals = await harness.signals(project)
    assert {"slipping_milestone:Beta", "mail_mention:MCU-1", "unblocked:MCU-2"} <= set(signals)
    acted, questions = await harness.actions(project), await harness.escalations(project)

    if how == "lost":
        await _lose_snapshot(harness, project)
    else:
        harness.tracker.is_reset = True
    harness.tracker.block("MCU-77")
    cycle = await harness.run_cycle()

    assert cycle.tickets == len(harness.tracker.log)
    assert [each.key for each in cycle.signals] == ["blocked:MCU-77"]
    assert await harness.signals(project) == [*signals, "blocked:MCU-77"]
    assert len(await harness.actions(project)) == len(acted) + 1
    assert await harness.escalations(project) == questions
    # Earlier reports are still known: the end of each is reported.
    harness.tracker.put("MCU-3", is_blocked=False)
    assert [each.key for each in (await harness.run_cycle()).signals] == ["unblocked:MCU-3"]


async def _lose_snapshot(harness: Harness, project: Project) -> None:
    """Point to a missing snapshot, as after the bucket was emptied."""
    seen = await harness.stores.run(patterns.checkpoint(project.id, "jira", "snapshot"))
    assert seen is not None
    lost = seen.model_copy(update={"checkpoint_value": "0" * 64})
    await harness.stores.run(patterns.put_checkpoint(lost, seen.checkpoint_value))


async def test_mail_during_a_pending_full_read_waits_and_hides_no_ticket(harness: Harness) -> None:
    project = await harness.create_project(config={"mail": True})
    for number in range(3):
        harness.tracker.put(f"MCU-{number}")
    await harness.run_cycle()
    await _lose_snapshot(harness, project)
    harness.tracker.fails = ExternalServiceFailed("no answer", may_be_done=False)
    harness.mailbox.receive("MCU-1 is late")
    assert (await harness.run_cycle()).errors == ["tracker"]
    assert await harness.signals(project) == []
    harness.tracker.fails = None
    cycle = await harness.run_cycle()
    assert (cycle.tickets, [each.key for each in cycle.signals]) == (3, ["mail_mention:MCU-1"])


async def test_snapshot_in_use_outlives_its_lifetime(harness: Harness) -> None:
    """It is rewritten before it expires."""
    harness.clock.advance(3 * HOUR_S)
    project = await harness.create_project(autonomy_level="monitoring")
    harness.tracker.put("MCU-1", stage=TicketStage.to_do, status="To Do")
    await harness.run_cycle()
    pointers = {await harness.checkpoint(project, "jira", "snapshot")}
    for _ in range(patterns.SNAPSHOT_DAYS * 2):
        harness.clock.advance(DAY_S)
        assert (await harness.make_loop().tick()).cycles
        await sweep_buckets(harness.stores, [patterns.snapshots.bucket])
        sha256 = await harness.checkpoint(project, "jira", "snapshot")
        assert sha256 is not None
        assert (await harness.stores.run(patterns.kept_snapshot(project.id, sha256))).body
        pointers.add(sha256)
    assert len(pointers) == 4
    harness.tracker.block("MCU-1")
    harness.clock.advance(DAY_S)
    (cycle,) = (await harness.make_loop().tick()).cycles
    assert [each.key for each in cycle.signals] == ["blocked:MCU-1"]


async def test_daily_full_read_drops_deleted_tickets(harness: Harness) -> None:
    project = await harness.create_project(autonomy_level="artefact")
    for number in (1, 2):
        harness.tracker.put(f"MCU-{number}", stage=TicketStage.to_do, status="To Do")
    await harness.run_cycle()
    harness.tracker.log = [each for each in harness.tracker.log if each[0].key != "MCU-2"]
    await harness.run_cycle()
    assert await harness.count_tickets(project) == 2
    harness.clock.advance(DAY_S)
    await harness.run_cycle()
    assert await harness.count_tickets(project) == 1
    assert harness.tracker.checkpoints.count(None) == 2


async def test_repeats_a_failed_daily_full_read_in_the_next_cycle(harness: Harness) -> None:
    project = await harness.create_project(autonomy_level="artefact")
    for number in (1, 2):
        harness.tracker.put(f"MCU-{number}", stage=TicketStage.to_do, status="To Do")
    await harness.run_cycle()
    harness.tracker.log = [each for each in harness.tracker.log if each[0].key != "MCU-2"]
    harness.clock.advance(DAY_S)
    harness.tracker.fails_at = len(harness.tracker.checkpoints) + 1
    assert (await harness.run_cycle()).errors == ["tracker"]
    assert await harness.count_tickets(project) == 2
    assert (await harness.run_cycle()).errors == []
    assert await harness.count_tickets(project) == 1


async def test_limits_the_pages_of_an_endless_tracker_and_resumes_next_cycle(harness: Harness) -> None:
    await harness.create_project(autonomy_level="monitoring")
    harness.tracker.put("MCU-1")
    fetches = 0

    async def more() -> None:
        nonlocal fetches
        fetches += 1
        harness.tracker.put(f"MCU-{fetches + 1}")

    harness.tracker.page_size, harness.tracker.on_fetch = 1, more
    (cycle,) = (await harness.make_loop().tick()).cycles
    assert cycle.tickets == MAX_ROUNDS * PAGES_AT_ONCE
    harness.tracker.on_fetch = do_nothing
    harness.clock.advance(INTERVAL_S)
    (cycle,) = (await harness.make_loop().tick()).cycles
    assert cycle.tickets == 1


# --- mail ---------------------------------------------------------------------------------------------------


async def test_reads_mail_page_by_page_and_resumes_from_the_last_token(harness: Harness) -> None:
    project = await harness.create_project(config={"mail": True})
    harness.tracker.put("MCU-1")
    harness.mailbox.page_size, harness.mailbox.fails_at = 2, 3
    for number in range(5):
        harness.mailbox.receive(f"MCU-1, letter {number}")
    assert (await harness.run_cycle()).errors == ["mail"]
    assert await harness.checkpoint(project, "outlook", "delta_token") == "4"
    assert len(await harness.signals(project)) == 4
    assert (await harness.run_cycle()).errors == []
    assert harness.mailbox.checkpoints == [None, "2", "4", "4"]
    summaries = [each.summary for each in await harness.events(project, "signal_detected")]
    assert summaries == [f"A mail mentions MCU-1: MCU-1, letter {number}" for number in range(5)]


async def test_reports_a_page_with_more_mails_than_a_commit_holds(harness: Harness) -> None:
    project = await harness.create_project(config={"mail": True})
    harness.tracker.put("MCU-1")
    for number in range(40):
        harness.mailbox.receive(f"MCU-1, letter {number}")
    steps: list[str] = []
    cycle = await harness.run_cycle(harness.make_loop(steps.append))
    assert len(cycle.signals) == 40
    assert len(await harness.signals(project)) == 40
    assert await harness.checkpoint(project, "outlook", "delta_token") == "40"
    # One by the tracker, and three by the mails.
    assert steps.count("committed") == 4


async def test_leaves_an_endless_mailbox_for_the_next_cycle(harness: Harness) -> None:
    project = await harness.create_project(config={"mail": True})
    harness.tracker.put("MCU-1")
    harness.mailbox.page_size = 1
    for _ in range(MAX_MAIL_PAGES + 3):
        harness.mailbox.receive("Lunch")
    await harness.run_cycle()
    assert await harness.checkpoint(project, "outlook", "delta_token") == str(MAX_MAIL_PAGES)
    await harness.run_cycle()
    assert await harness.checkpoint(project, "outlook", "delta_token") == str(MAX_MAIL_PAGES + 3)


async def test_reads_no_mail_for_a_project_without_mail(harness: Harness) -> None:
    await harness.create_project()
    await harness.run_cycle()
    assert harness.mailbox.checkpoints == []


# --- artefacts ----------------------------------------------------------------------------------------------


class InterruptedWriter(RulesWriter):
    """A rules writer during whose first call a person edits the RAID log."""

    def __init__(self, harness: Harness, project: Project) -> None:
        super().__init__()
        self.harness, self.project, self.wrote = harness, project, 0

    async def write(self, writing: Writing) -> Draft:
        self.wrote += 1
        if self.wrote == 1:
            seen = await self.harness.artefact(self.project, ArtefactType.raid_log)
            await artefacts.update(
                self.harness.stores.for_component("api"),
                self.project.id,
                ArtefactType.raid_log,
                {"items": [*seen.content["items"], make_item("R900")]},
                seen.version,
            )
        return await super().write(writing)


async def test_does_not_overwrite_a_persons_edit_and_the_next_cycle_decides_again(harness: Harness) -> None:
    project = await harness.create_project()
    harness.tracker.put("MCU-1")
    await harness.run_cycle()
    harness.tracker.block("MCU-1")
    cycle = await harness.run_cycle(harness.make_loop(rules=InterruptedWriter(harness, project)))
    assert cycle.errors == ["artefacts"]
    log = await harness.artefact(project, ArtefactType.raid_log)
    assert [each["id"] for each in log.content["items"]] == ["R900"]
    state = await harness.artefact(project, ArtefactType.delivery_state)
    assert (state.version, state.content["blockers"]) == (1, [])

    assert (await harness.run_cycle()).errors == []
    log = await harness.artefact(project, ArtefactType.raid_log)
    assert "R900" in [each["id"] for each in log.content["items"]] and len(log.content["items"]) > 1
    state = await harness.artefact(project, ArtefactType.delivery_state)
    assert [each["source_ticket"] for each in state.content["blockers"]] == ["MCU-1"]


async def test_own_thresholds_of_a_project_apply_to_signals_and_artefacts(harness: Harness) -> None:
    strict = await harness.create_project(name="Strict", config={"thresholds": {"stale_working_days": 1}})
    await harness.create_project(name="Patient", source_project_key="P")
    harness.tracker.put("MCU-1")
    await harness.run_turn()
    harness.clock.advance(2 * DAY_S)
    turn = await harness.make_loop().tick()
    signals = {each.project_id: [signal.key for signal in each.signals] for each in turn.cycles}
    assert signals[strict.id] == ["stale:MCU-1"]
    assert sorted(map(len, signals.values())) == [0, 1]
    summary = await harness.artefact(strict, ArtefactType.backlog_summary)
    assert [each["flag"] for each in summary.content["highlights"]] == ["stale"]


async def test_heartbeat_reports_what_the_cycle_did(harness: Harness) -> None:
    project = await harness.create_project()
    harness.tracker.block("MCU-1")
    await harness.run_cycle()
    (beat,) = await harness.events(project, "heartbeat")
    detail = beat.detail or {}
    assert (detail["tickets"], detail["signals"], detail["errors"]) == (1, 1, 0)
    assert sorted(detail["artefacts"]) == sorted(ArtefactType)


async def test_does_nothing_and_takes_no_lease_without_projects(harness: Harness) -> None:
    assert (await harness.make_loop().tick()).skip_reason == "no project is due"
    assert ("AGENT", "LEASE#loop") not in await harness.items()
