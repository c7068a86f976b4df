"""Tests of the artefacts that the rules write: always valid, deterministic, and unchanged on a quiet day."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given

from agenticpm.domain.contents import ArtefactType, check_consistency, validate_content
from agenticpm.domain.signals import detect_mail_signals
from agenticpm.domain.tickets import (
    FieldChange,
    MailMessage,
    MailPage,
    Milestone,
    Priority,
    Signal,
    Snapshot,
    Ticket,
    TicketStage,
    Writing,
)
from agenticpm.domain.writers.rules import RulesWriter, is_same_except_times
from tests.systems.agenticpm.unit.sample_snapshots import (
    DAY,
    NOW,
    SPRINT,
    START,
    detect_first,
    detect_signals,
    make_done_ticket,
    make_falling_velocity,
    make_item,
    make_snapshot,
    make_ticket,
    raid_logs,
    snapshots,
)
from tests.systems.agenticpm.unit.writers.sample_contents import DECISION_LOG


async def write(
    type: str,
    seen: Snapshot,
    previous: dict[str, Any] | None = None,
    *,
    signals: Sequence[Signal] = (),
    raid_log: dict[str, Any] | None = None,
    now: datetime = NOW,
) -> dict[str, Any]:
    """Return the content that the rules write, at no cost."""
    writing = Writing(
        type=type, previous=previous, snapshot=seen, signals=tuple(signals), raid_log=raid_log, now=now
    )
    draft = await RulesWriter().write(writing)
    assert draft.writer == "rules" and draft.usd == 0
    return dict(draft.content)


def make_sprint_of_34() -> list[Ticket]:
    """Make the tickets of the document's example: 21 points done, 8 in progress and 5 blocked."""
    return [
        make_done_ticket("MCU-140", NOW - DAY, sprint="12", points=Decimal(21)),
        make_ticket("MCU-141", sprint="12", points=Decimal(8), stage=TicketStage.in_progress),
        make_ticket(
            "MCU-142",
            title="Profile page redesign",
            sprint="12",
            points=Decimal(5),
            stage=TicketStage.in_progress,
            is_blocked=True,
            blocked_reason="Design assets not delivered",
            assignee="Sarah K",
            priority=Priority.high,
        ),
    ]


# --- any facts ----------------------------------------------------------------------------------------------


@pytest.mark.proves("AP-50", "AP-51", "AP-53", "AP-54")
@given(snapshots(), snapshots(), raid_logs())
async def test_every_content_is_valid_and_consistent_for_any_facts(
    earlier: Snapshot, later: Snapshot, raid_log: dict[str, Any]
) -> None:
    contents: dict[ArtefactType, dict[str, Any]] = {ArtefactType.raid_log: raid_log}
    for facts, now in ((earlier, NOW), (later, NOW + 20 * DAY)):
        seen, signals = detect_first(facts, now)
        log = await write("raid_log", seen, contents[ArtefactType.raid_log], signals=signals, now=now)
        contents[ArtefactType.raid_log] = log
        for type in (ArtefactType.delivery_state, ArtefactType.backlog_summary, ArtefactType.decision_log):
            contents[type] = await write(
                type, seen, contents.get(type), signals=signals, raid_log=log, now=now
            )
        for type, content in contents.items():
            validate_content(type, content)
        check_consistency(contents)


@given(snapshots(), raid_logs())
async def test_quiet_cycle_changes_only_the_time(facts: Snapshot, raid_log: dict[str, Any]) -> None:
    seen, signals = detect_first(facts)
    log = await write("raid_log", seen, raid_log, signals=signals)
    # Nothing comes due in this minute, and the tracker reports nothing new.
    later = NOW.replace(minute=1)
    again = seen.model_copy(update={"synced_at": later})
    assert await write("raid_log", again, log, now=later) == log
    for type in ("delivery_state", "backlog_summary", "decision_log"):
        content = await write(type, seen, signals=signals, raid_log=log)
        assert content == await write(type, seen, signals=signals, raid_log=log)
        assert is_same_except_times(content, await write(type, again, content, raid_log=log, now=later))


async def test_sync_time_alone_makes_no_new_version() -> None:
    seen = make_snapshot(make_ticket())
    content = await write("backlog_summary", seen)
    later = await write("backlog_summary", seen.model_copy(update={"synced_at": NOW + DAY}))
    assert content != later and is_same_except_times(content, later)
    assert not is_same_except_times(content, await write("backlog_summary", make_snapshot()))
    assert not is_same_except_times(None, content)


async def test_truncates_ticket_texts_and_drops_invisible_characters() -> None:
    bad = make_ticket(title="x\u202e\x07" + "y" * 5000, is_blocked=True, blocked_reason="z\n" * 3000)
    seen, signals = detect_first(make_snapshot(bad))
    for type in ("delivery_state", "raid_log", "backlog_summary"):
        content = await write(type, seen, signals=signals)
        texts = [
            each
            for line in content.get("items", []) + content.get("blockers", []) + content.get("highlights", [])
            for each in line.values()
            if isinstance(each, str)
        ]
        assert texts and all(len(each) < 500 and each.isprintable() for each in texts)


# --- delivery state -----------------------------------------------------------------------------------------


@pytest.mark.proves("AP-50")
async def test_counts_the_sprint_in_points_and_a_blocked_ticket_once() -> None:
    content = await write("delivery_state", make_snapshot(*make_sprint_of_34(), sprints=(SPRINT,)))
    assert content["current_sprint"] == {
        "name": "Sprint 12",
        "start_date": "2026-02-02T09:00:00Z",
        "end_date": "2026-02-16T09:00:00Z",
        "goal": "Migrate profiles",
        "progress": {
            "total_points": 34,
            "completed_points": 21,
            "in_progress_points": 8,
            "blocked_points": 5,
        },
    }
    assert content["status_summary"] == (
        "Amber: work is blocked. Sprint 12: 21 of 34 points done, 8 in progress, 5 blocked. "
        "1 blocker and 0 active risks. Velocity is stable."
    )
    assert content["next_actions"] == ["Clear what blocks MCU-142 with Sarah K"]


async def test_counts_a_sprint_without_points_in_tickets() -> None:
    tickets = [each.model_copy(update={"points": None}) for each in make_sprint_of_34()]
    progress = (await write("delivery_state", make_snapshot(*tickets, sprints=(SPRINT,))))["current_sprint"][
        "progress"
    ]
    assert list(progress.values()) == [3, 1, 1, 1]


async def test_has_no_current_sprint_between_sprints() -> None:
    assert (await write("delivery_state", make_snapshot(make_ticket())))["current_sprint"] is None


@pytest.mark.parametrize(
    ("seen", "raid_log", "colour"),
    [
        (make_snapshot(make_ticket()), None, "green"),
        (make_snapshot(), None, "green"),
        (make_snapshot(milestones=(Milestone(name="Beta", due_at=NOW - DAY),)), None, "red"),
        (make_snapshot(milestones=(Milestone(name="Beta", due_at=NOW - DAY, is_done=True),)), None, "green"),
        (make_snapshot(), {"items": [make_item(severity="critical")]}, "red"),
        (make_snapshot(), {"items": [make_item(severity="critical", status="accepted")]}, "green"),
        (make_snapshot(), {"items": [make_item(severity="high")]}, "amber"),
        (make_snapshot(), {"items": [make_item(severity="medium")]}, "green"),
        (make_snapshot(make_ticket(is_blocked=True)), None, "amber"),
        (make_snapshot(make_ticket(is_blocked=True, sprint="12"), sprints=(SPRINT,)), None, "red"),
        (make_falling_velocity(), None, "amber"),
    ],
)
async def test_colour_follows_the_worst_rule(
    seen: Snapshot, raid_log: dict[str, Any] | None, colour: str
) -> None:
    assert (await write("delivery_state", seen, raid_log=raid_log))["overall_status"] == colour


async def test_grown_sprint_is_amber_and_a_milestone_at_risk_is_noted() -> None:
    tickets = [make_ticket(f"MCU-{n}", sprint="12") for n in range(4)]
    late = make_ticket("MCU-9", sprint="12", created_at=START + 2 * DAY)
    seen, _ = detect_first(make_snapshot(*tickets, late, sprints=(SPRINT,)))
    assert (await write("delivery_state", seen))["overall_status"] == "amber"
    falling = make_falling_velocity()
    plan = falling.plan.model_copy(
        update={"milestones": (Milestone(name="Beta", due_at=NOW + DAY, notes="Hard."),)}
    )
    left = make_ticket("MCU-1", milestone="Beta", points=Decimal(30))
    seen = falling.model_copy(update={"plan": plan, "tickets": {**falling.tickets, "MCU-1": left}})
    content = await write("delivery_state", seen)
    assert content["milestones"] == [
        {
            "name": "Beta",
            "due_date": "2026-02-12T09:00:00Z",
            "status": "at_risk",
            "notes": "Hard. 30 points open, more than the present pace can do by then",
        }
    ]


async def test_blocker_keeps_its_id_and_date_while_its_ticket_is_blocked() -> None:
    one, two = (
        make_ticket("MCU-1", is_blocked=True),
        make_ticket("MCU-2", is_blocked=True, priority=Priority.critical),
    )
    before = await write("delivery_state", make_snapshot(one))
    assert [(each["id"], each["source_ticket"]) for each in before["blockers"]] == [("B001", "MCU-1")]
    touched = one.model_copy(update={"updated_at": NOW, "assignee": "Sarah K"})
    after = await write("delivery_state", make_snapshot(touched, two), before)
    assert [(each["id"], each["source_ticket"], each["severity"]) for each in after["blockers"]] == [
        ("B001", "MCU-1", "medium"),
        ("B002", "MCU-2", "high"),
    ]
    assert after["blockers"][0]["raised_date"] == before["blockers"][0]["raised_date"]
    assert after["blockers"][0]["owner"] == "Sarah K"
    last = await write("delivery_state", make_snapshot(make_ticket("MCU-1"), two), after)
    assert [each["id"] for each in last["blockers"]] == ["B002"]


async def test_blocker_and_its_issue_have_the_trackers_date() -> None:
    change = FieldChange(id="1", ticket="MCU-1", field="Flagged", after="Impediment", at=NOW - 9 * DAY)
    seen, _ = detect_signals(make_snapshot(), make_snapshot(make_ticket(is_blocked=True)), [change])
    for content, lines in (("delivery_state", "blockers"), ("raid_log", "items")):
        assert (await write(content, seen))[lines][0]["raised_date"] == "2026-02-02T09:00:00Z"


async def test_keeps_a_blocker_without_a_ticket() -> None:
    before = await write("delivery_state", make_snapshot(make_ticket(is_blocked=True)))
    own = before["blockers"][0] | {"id": "B007", "source_ticket": None, "description": "No budget"}
    before = before | {"blockers": [own], "key_metrics": before["key_metrics"] | {"open_blockers": 1}}
    after = await write("delivery_state", make_snapshot(make_ticket("MCU-2", is_blocked=True)), before)
    assert [(each["id"], each["source_ticket"]) for each in after["blockers"]] == [
        ("B007", None),
        ("B008", "MCU-2"),
    ]


async def test_metrics_come_from_the_tracker_and_the_raid_log() -> None:
    taken = make_done_ticket("MCU-9", NOW - DAY, started_at=NOW - 5 * DAY)
    log = {"items": [make_item(), make_item("R002", type="issue"), make_item("R003", status="accepted")]}
    metrics = (await write("delivery_state", make_snapshot(taken), raid_log=log))["key_metrics"]
    assert metrics == {
        "velocity_trend": "stable",
        "avg_cycle_time_days": 4,
        "open_blockers": 0,
        "active_risks": 1,
    }


async def test_next_actions_start_with_overdue_items_and_are_at_most_ten() -> None:
    stuck = [make_ticket(f"MCU-{n}", is_blocked=True) for n in range(20)]
    content = await write(
        "delivery_state", make_snapshot(*stuck, milestones=(Milestone(name="Beta", due_at=NOW - DAY),))
    )
    assert content["next_actions"][0] == "Agree on a new date for Beta, or close it"
    assert len(content["next_actions"]) == 10


# --- RAID log -----------------------------------------------------------------------------------------------


@pytest.mark.proves("AP-51")
async def test_blocked_ticket_becomes_an_issue_that_is_resolved_with_it() -> None:
    stuck = make_ticket(
        is_blocked=True,
        blocked_reason="No assets",
        assignee="Sarah K",
        priority=Priority.high,
        due_at=NOW + DAY,
    )
    seen, signals = detect_first(make_snapshot(stuck))
    log = await write("raid_log", seen, signals=signals)
    assert log["items"] == [
        {
            "id": "R001",
            "type": "issue",
            "title": "MCU-1 is blocked: Work on MCU-1",
            "description": "No assets",
            "severity": "high",
            "status": "open",
            "owner": "Sarah K",
            "raised_date": "2026-02-10T09:00:00Z",
            "due_date": "2026-02-12T09:00:00Z",
            "mitigation": "Find out what MCU-1 waits for, and who can clear it",
            "resolution": None,
            "resolved_date": None,
            "source": "integration_signal",
            "source_reference": "MCU-1",
            "last_reviewed": "2026-02-11T09:00:00Z",
        }
    ]
    after = (await write("raid_log", make_snapshot(make_ticket()), log, now=NOW + DAY))["items"]
    assert (after[0]["status"], after[0]["resolution"]) == ("resolved", "MCU-1 is no longer blocked")
    assert after[0]["resolved_date"] == "2026-02-12T09:00:00Z"
    assert (await write("raid_log", make_snapshot(), log))["items"][0][
        "resolution"
    ] == "MCU-1 is no longer in the project"
    finished = make_snapshot(make_done_ticket("MCU-1", NOW))
    assert (await write("raid_log", finished, log))["items"][0]["resolution"] == "MCU-1 is done"


async def test_ticket_blocked_again_is_a_new_item_with_a_new_id() -> None:
    seen, _ = detect_first(make_snapshot(make_ticket(is_blocked=True)))
    log = await write("raid_log", make_snapshot(make_ticket()), await write("raid_log", seen), now=NOW + DAY)
    again, _ = detect_first(make_snapshot(make_ticket(is_blocked=True)), NOW + 2 * DAY)
    log = await write("raid_log", again, log, now=NOW + 2 * DAY)
    assert [(each["id"], each["status"]) for each in log["items"]] == [("R001", "resolved"), ("R002", "open")]


async def test_does_not_raise_a_closed_or_accepted_item_again() -> None:
    seen, _ = detect_first(make_snapshot(make_ticket(is_blocked=True)))
    log = await write("raid_log", seen)
    closed = {"status": "closed", "resolution": "We live with it", "resolved_date": "2026-02-11T10:00:00Z"}
    for change in (closed, {"status": "accepted"}):
        edited = {"items": [log["items"][0] | change]}
        assert await write("raid_log", seen, edited, now=NOW + DAY) == edited


async def test_never_changes_peoples_items() -> None:
    own = [
        make_item("R001", type="issue", source_reference="MCU-1"),
        make_item("R002", source_reference="milestone:Beta"),
        make_item("R007", source_reference=None),
        # Raised by the agent, but not by these rules: another risk of the ticket.
        make_item("R008", source="agent_detected", source_reference="MCU-1"),
    ]
    assert await write("raid_log", make_snapshot(make_ticket()), {"items": own}) == {"items": own}


async def test_keeps_peoples_edits_of_our_items_and_continues_the_ids() -> None:
    seen, _ = detect_first(make_snapshot(make_ticket(is_blocked=True)))
    log = await write("raid_log", seen)
    edited = log["items"][0] | {"id": "R041", "owner": "Damien", "severity": "low", "status": "mitigating"}
    more, _ = detect_first(make_snapshot(make_ticket(is_blocked=True), make_ticket("MCU-2", is_blocked=True)))
    after = (await write("raid_log", more, {"items": [edited]}))["items"]
    assert after[0] == edited
    assert (after[1]["id"], after[1]["source_reference"]) == ("R042", "MCU-2")


async def test_milestone_at_risk_is_a_risk_and_becomes_an_issue_when_late() -> None:
    falling = make_falling_velocity()
    plan = falling.plan.model_copy(update={"milestones": (Milestone(name="Beta", due_at=NOW + DAY),)})
    left = make_ticket("MCU-1", milestone="Beta", points=Decimal(30))
    seen = falling.model_copy(update={"plan": plan, "tickets": {**falling.tickets, "MCU-1": left}})
    log = await write("raid_log", seen)
    assert [(each["type"], each["source"], each["source_reference"]) for each in log["items"]] == [
        ("risk", "agent_detected", "milestone:Beta"),
        ("risk", "agent_detected", "velocity:MCU"),
    ]
    after = (await write("raid_log", seen, log, now=NOW + 3 * DAY))["items"]
    assert (after[0]["status"], after[0]["resolution"]) == (
        "resolved",
        "It came true: the milestone is overdue",
    )
    assert (after[2]["type"], after[2]["source_reference"], after[2]["severity"]) == (
        "issue",
        "overdue:Beta",
        "high",
    )


async def test_mail_about_trouble_is_one_risk() -> None:
    mails = (
        MailMessage(id="m-1", subject="MCU-1 is delayed, says ada@example.com", received_at=NOW - DAY),
        MailMessage(id="m-2", subject="MCU-1", received_at=NOW - DAY),
    )
    seen, _ = detect_mail_signals(
        make_snapshot(make_ticket()), MailPage(messages=mails, checkpoint="c"), "MCU", NOW
    )
    log = await write("raid_log", seen)
    assert [(each["source_reference"], each["source"]) for each in log["items"]] == [
        ("mail:MCU-1", "integration_signal")
    ]
    assert log["items"][0]["description"] == "A mail mentions MCU-1: MCU-1 is delayed, says ***@***"
    assert log["items"][0]["raised_date"] == "2026-02-10T09:00:00Z"
    assert await write("raid_log", seen, log, now=NOW + DAY) == log
    ended = {"status": "closed", "resolution": "All is well", "resolved_date": "2026-02-11T09:00:00Z"}
    closed = {"items": [log["items"][0] | ended]}
    assert await write("raid_log", seen, closed, now=NOW + DAY) == closed


async def test_raises_nothing_in_the_future_and_ends_nothing_before_its_start() -> None:
    seen, _ = detect_first(make_snapshot(make_ticket(is_blocked=True, updated_at=NOW + 5 * DAY)))
    log = await write("raid_log", seen)
    assert log["items"][0]["raised_date"] == "2026-02-11T09:00:00Z"
    ahead = {"items": [log["items"][0] | {"raised_date": "2026-03-01T00:00:00Z"}]}
    assert (await write("raid_log", make_snapshot(make_ticket()), ahead))["items"][0][
        "resolved_date"
    ] == "2026-03-01T00:00:00Z"


# --- backlog and decisions ----------------------------------------------------------------------------------


@pytest.mark.proves("AP-53", "AP-54")
async def test_backlog_counts_each_open_ticket_once_and_the_work_done_in_this_sprint() -> None:
    tickets = [
        *make_sprint_of_34(),
        make_done_ticket("MCU-1", NOW - DAY, sprint="11"),
        make_ticket("MCU-2", priority=Priority.critical),
        make_ticket("MCU-3", is_blocked=True),
    ]
    content = await write("backlog_summary", make_snapshot(*tickets, sprints=(SPRINT,)))
    assert content["summary"] == {
        "total_items": 5,
        "by_status": {"to_do": 1, "in_progress": 1, "done_this_sprint": 1, "blocked": 2},
        "by_priority": {"critical": 1, "high": 1, "medium": 3, "low": 0},
    }
    assert (content["source"], content["last_synced"]) == ("jira", "2026-02-11T09:00:00Z")
    assert content["scope_notes"] == "Nothing came to Sprint 12 since it began."


async def test_counts_the_work_of_two_weeks_without_a_sprint() -> None:
    content = await write(
        "backlog_summary",
        make_snapshot(make_done_ticket("A", NOW - 13 * DAY), make_done_ticket("B", NOW - 14 * DAY)),
    )
    assert content["summary"]["by_status"]["done_this_sprint"] == 1
    assert content["scope_notes"] == "No sprint is running."


async def test_highlights_name_each_ticket_once_blocked_ones_first_with_an_action() -> None:
    tickets = [
        make_ticket("MCU-1", sprint="12", has_criteria=False),
        make_ticket(
            "MCU-2", sprint="12", stage=TicketStage.in_progress, updated_at=NOW - 9 * DAY, assignee="Ada"
        ),
        make_ticket("MCU-3", sprint="12", is_blocked=True, has_criteria=False),
        make_ticket("MCU-4", sprint="12", created_at=START + 2 * DAY),
    ]
    seen, _ = detect_first(make_snapshot(*tickets, sprints=(SPRINT,)))
    content = await write("backlog_summary", seen)
    assert [
        (each["ticket_id"], each["flag"], each["suggested_action"]) for each in content["highlights"]
    ] == [
        ("MCU-3", "blocked", "Find out who can clear it"),
        ("MCU-2", "stale", "Ask Ada for news"),
        ("MCU-1", "missing_criteria", "Write its acceptance criteria"),
        ("MCU-4", "new", "Confirm that it belongs to this sprint"),
    ]
    assert content["scope_notes"] == (
        "1 ticket came into Sprint 12 after it began: MCU-4; 1 ticket on 3 planned (possible scope creep)."
    )


async def test_highlights_a_grown_ticket_as_scope_creep() -> None:
    seen, _ = detect_first(make_snapshot(make_ticket(sprint="12", points=Decimal(3)), sprints=(SPRINT,)))
    grown = seen.model_copy(update={"tickets": {"MCU-1": make_ticket(sprint="12", points=Decimal(8))}})
    (highlight,) = (await write("backlog_summary", grown))["highlights"]
    assert (highlight["flag"], highlight["detail"]) == (
        "scope_creep",
        "Grew from 3 to 8 points during the sprint",
    )


async def test_refinement_candidates_are_the_sprints_and_then_the_urgent() -> None:
    tickets = [
        make_ticket("MCU-1", has_criteria=False),
        make_ticket("MCU-2", has_criteria=False, priority=Priority.critical),
        make_ticket("MCU-3", has_criteria=False, sprint="12", points=Decimal(3)),
        make_ticket("MCU-4", priority=Priority.high),
    ]
    content = await write("backlog_summary", make_snapshot(*tickets, sprints=(SPRINT,)))
    assert [(each["ticket_id"], each["issue"]) for each in content["refinement_candidates"]] == [
        ("MCU-3", "Missing acceptance criteria"),
        ("MCU-2", "Missing acceptance criteria and an estimate"),
        ("MCU-4", "Missing an estimate"),
    ]


async def test_limits_highlights_and_candidates() -> None:
    many = [make_ticket(f"MCU-{n}", sprint="12", has_criteria=False) for n in range(100)]
    content = await write("backlog_summary", make_snapshot(*many, sprints=(SPRINT,)))
    assert (len(content["highlights"]), len(content["refinement_candidates"])) == (20, 20)


@pytest.mark.proves("AP-52")
async def test_decision_log_contains_only_peoples_decisions() -> None:
    stuck = make_snapshot(make_ticket(is_blocked=True))
    assert await write("decision_log", stuck) == {"decisions": []}
    assert await write("decision_log", stuck, DECISION_LOG) == DECISION_LOG


# --- postponed milestones -----------------------------------------------------------------------------------


def postpone(days: int = 30, **how: Any) -> tuple[Snapshot, list[Signal]]:
    """Detect the signals after Beta, which was due in sixty days, is postponed by this many days."""
    before = make_snapshot(make_ticket(), milestones=(Milestone(name="Beta", due_at=NOW + 60 * DAY),))
    seen, _ = detect_first(before)
    after = Milestone(name="Beta", due_at=NOW + (60 + days) * DAY)
    return detect_again(seen, after, **how)


def detect_again(seen: Snapshot, beta: Milestone, now: datetime = NOW) -> tuple[Snapshot, list[Signal]]:
    """Detect the signals after the plan has only this milestone."""
    plan = seen.plan.model_copy(update={"milestones": (beta,)})
    after = seen.model_copy(update={"plan": plan})
    return detect_signals(seen, after, now=now)


async def get_beta(seen: Snapshot, now: datetime = NOW) -> tuple[str, str]:
    """Return the status and notes of the only milestone in the delivery state."""
    (line,) = (await write("delivery_state", seen, now=now))["milestones"]
    return line["status"], line["notes"]


async def test_postponed_milestone_is_at_risk_in_the_state_and_the_log_for_a_while() -> None:
    seen, signals = postpone()
    assert [each.key for each in signals] == ["slipping_milestone:Beta"]
    assert await get_beta(seen) == ("at_risk", "Moved from 2026-04-12 to 2026-05-12")
    state = await write("delivery_state", seen)
    assert state["overall_status"] == "amber" and "a milestone is at risk" in state["status_summary"]
    assert state["next_actions"] == ["Tell those who wait for Beta that it is due on 2026-05-12 now"]
    log = await write("raid_log", seen)
    (risk,) = log["items"]
    assert (risk["type"], risk["source"], risk["source_reference"]) == (
        "risk",
        "agent_detected",
        "milestone:Beta",
    )
    assert (risk["severity"], risk["due_date"]) == ("medium", "2026-05-12T09:00:00Z")
    assert "was due on 2026-04-12 and is due on 2026-05-12 now" in risk["description"]

    # A quiet fortnight reports and changes nothing; then it is over.
    beta = Milestone(name="Beta", due_at=NOW + 90 * DAY)
    quiet = NOW + 13 * DAY
    again, signals = detect_again(seen, beta, quiet)
    assert signals == [] and again.moved == seen.moved
    assert is_same_except_times(log, await write("raid_log", again, log, now=quiet))
    over = NOW + 14 * DAY
    ended, signals = detect_again(again, beta, over)
    assert signals == [] and ended.moved == {}
    assert (await get_beta(ended, over))[0] == "on_track"
    (resolved,) = (await write("raid_log", ended, log, now=over))["items"]
    assert resolved["status"] == "resolved" and "kept its new date" in resolved["resolution"]


async def test_postponement_counts_from_the_first_date_and_ends_when_it_is_reverted() -> None:
    seen, _ = postpone(5)
    assert (await write("raid_log", seen))["items"][0]["severity"] == "low"
    later = NOW + 10 * DAY
    seen, signals = detect_again(seen, Milestone(name="Beta", due_at=NOW + 70 * DAY), later)
    assert len(signals) == 1
    assert await get_beta(seen, later) == ("at_risk", "Moved from 2026-04-12 to 2026-04-22")
    assert (
        await get_beta(detect_again(seen, Milestone(name="Beta", due_at=NOW + 70 * DAY), NOW + 20 * DAY)[0])
    )[0] == "at_risk"
    back, signals = detect_again(seen, Milestone(name="Beta", due_at=NOW + 60 * DAY), later)
    assert signals == [] and await get_beta(back, later) == ("on_track", "")


async def test_postponed_milestone_that_cannot_be_met_is_reported_too() -> None:
    seen, _ = postpone()
    slow = make_falling_velocity()
    left = make_ticket("MCU-1", milestone="Beta", points=Decimal(3000))
    plan = slow.plan.model_copy(update={"milestones": (Milestone(name="Beta", due_at=NOW + 90 * DAY),)})
    after = seen.model_copy(update={"plan": plan, "tickets": {**slow.tickets, "MCU-1": left}})
    seen, signals = detect_signals(seen, after)
    assert [each.summary for each in signals if "at the current pace" in each.summary]
    assert "Moved from" in (await get_beta(seen))[1] and "present pace" in (await get_beta(seen))[1]
