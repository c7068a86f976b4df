"""Acceptance test of the agent from onboarding to the digest, over HTTP with sandboxes, on each engine."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agenticpm.domain.autonomy import DO_IT
from agenticpm.domain.contents import ArtefactType, validate_content
from agenticpm.model import patterns
from agenticpm.model.entities import ProjectId
from agenticpm.workers.cycle import CycleReport
from holdfast.web.sandbox_faults import Faults
from holdfast_demo.agenticpm.demo_processes import DemoProcesses, onboard_project
from tests.systems.agenticpm.acceptance.engines import ENGINES, open_demo_on

BLOCKED = 5
BETA = "Beta launch"


@pytest.mark.proves("AP-19", "AP-21", "AP-23", "AP-33")
@pytest.mark.parametrize("engine", ENGINES)
async def test_manages_a_project_from_onboarding_to_digest(engine: str, tmp_path: Path) -> None:
    async with open_demo_on(engine, tmp_path) as demo:
        project = await _onboard(demo)
        await _run_first_cycle(demo, project)
        await _execute_held_actions_once(demo, project)
        await _decide_a_question(demo, project)
        await _allow_a_comment(demo, project)
        await _undo(demo, project)
        await _make_digest(demo)
        await _compare_feeds(demo)


async def _onboard(demo: DemoProcesses) -> ProjectId:
    """Check Jira, set the digest's recipient, create the project, and advance to the morning."""
    checked = await demo.call_api("POST", "/integrations/jira/check")
    assert checked["health"]["is_ok"]
    await demo.call_api(
        "PUT", "/config/digest_recipients", {"value": "sponsor@example.com", "by": "the sponsor"}
    )
    project = await onboard_project(demo)
    listed = (await demo.call_api("GET", "/projects"))["items"]
    assert [each["id"] for each in listed] == [project]
    await demo.advance_to_morning()
    return project


async def _run_first_cycle(demo: DemoProcesses, project: ProjectId) -> None:
    """Check the signals, their evidence and the four artefacts; a second cycle finds nothing new."""
    cycle = await _run_cycle(demo)
    assert (cycle.tickets, cycle.errors) == (47, [])
    events = (await demo.call_api("GET", f"/projects/{project}/events"))["items"]
    details = [each["detail"] for each in events if each["eventType"] == "signal_detected"]
    blocked = {each["subject"]: each for each in details if each["signal"] == "blocked"}
    assert len(blocked) == BLOCKED
    for subject, each in blocked.items():
        (evidence,) = each["evidence"]
        assert evidence["ticket"] == subject and {"field", "after", "at"} <= set(evidence)
    for type in ArtefactType:
        kept = await demo.call_api("GET", f"/projects/{project}/artefacts/{type}")
        assert kept["version"] == 1
        validate_content(type, kept["content"])
    state = (await _get_artefact(demo, project, "delivery_state"))["content"]
    assert sorted(each["source_ticket"] for each in state["blockers"]) == sorted(blocked)
    quiet = await _run_cycle(demo)
    assert (quiet.tickets, quiet.signals, quiet.artefacts) == (0, [], [])


async def _execute_held_actions_once(demo: DemoProcesses, project: ProjectId) -> None:
    """Cancel one held action, edit another, and check that the rest are executed once.

    Jira's answers to the first attempts are lost.
    """
    held = (await demo.call_api("GET", "/actions/held"))["items"]
    assert len(held) >= 3
    cancelled, edited, *others = held
    path = f"/projects/{project}/actions"
    await demo.call_api("POST", f"{path}/{cancelled['id']}/cancel", {"by": "the lead"})
    text = "Who can help here?"
    await demo.call_api("PATCH", f"{path}/{edited['id']}", {"by": "the lead", "detail": {"text": text}})
    assert (await demo.execute_due()).done == []
    assert list(demo.tracker_effects) == []

    await demo.advance_past_hold()
    # Jira posts the comments but their answers are lost: later they are looked up and not repeated.
    demo.jira.faults = Faults(failed_after=1.0)
    assert len((await demo.execute_due()).later) == len(held) - 1
    demo.jira.faults = Faults()
    demo.clock.advance(120)
    assert len((await demo.execute_due()).done) == len(held) - 1
    assert (await demo.execute_due()).done == []
    texts = {
        each["ticket"]: each["body"]["content"][0]["content"][0]["text"] for each in demo.tracker_effects
    }
    assert len(demo.tracker_effects) == len(texts) == len(held) - 1
    assert texts[edited["detail"]["ticket"]] == text
    assert cancelled["detail"]["ticket"] not in texts
    assert (await demo.call_api("GET", "/actions/held"))["items"] == []
    done = await demo.call_api("GET", f"{path}/{edited['id']}")
    assert (done["executed"], done["status"]) == (True, "processed")
    for each in others:
        assert (await demo.call_api("GET", f"{path}/{each['id']}"))["executed"] is True


async def _decide_a_question(demo: DemoProcesses, project: ProjectId) -> None:
    """Let a milestone slip, decide the question, and check the decision log and that it is decided once."""
    today = datetime.fromtimestamp(demo.clock.now(), UTC)
    demo.jira.data.put_version("MCU", BETA, releaseDate=(today - timedelta(days=3)).date().isoformat())
    cycle = await _run_cycle(demo)
    assert "slipping_milestone" in {str(each.kind) for each in cycle.signals}
    (question,) = [
        each for each in (await demo.call_api("GET", "/escalations"))["items"] if BETA in each["title"]
    ]
    assert all(each["pros"] and each["cons"] for each in question["options"])
    body = {"decision": "Cut the scope", "notes": "The date is promised.", "by": "the sponsor"}
    path = f"/projects/{project}/escalations/{question['id']}/decision"
    decided = await demo.call_api("POST", path, body)
    assert (decided["status"], decided["userDecision"]) == ("decided", "Cut the scope")
    (made,) = (await _get_artefact(demo, project, "decision_log"))["content"]["decisions"]
    assert (made["decision"], made["rationale"], made["made_by"]) == (
        "Cut the scope",
        "The date is promised.",
        "the sponsor",
    )
    assert datetime.fromisoformat(made["date"]) == datetime.fromisoformat(decided["decidedAt"])
    status, reason = await demo.call_api_refused("POST", path, body | {"decision": "Keep both"})
    assert status == 409 and "'Cut the scope' was chosen" in reason
    ended = (await demo.call_api("GET", "/escalations?status=decided"))["items"]
    assert [each["id"] for each in ended] == [question["id"]]


async def _allow_a_comment(demo: DemoProcesses, project: ProjectId) -> None:
    """Forbid comments, so that the agent asks, and allow the one it asks about."""
    await demo.call_api("PATCH", f"/projects/{project}", {"config": {"allowed_actions": []}})
    await demo.edit_ticket("MCU-122", flagged=True)
    await _run_cycle(demo)
    (question,) = (await demo.call_api("GET", "/escalations"))["items"]
    assert question["context"]["failing"] == ["boundary_compliance"]
    before = len(demo.tracker_effects)
    path = f"/projects/{project}/escalations/{question['id']}/decision"
    await demo.call_api("POST", path, {"decision": DO_IT, "by": "the lead"})
    assert len((await demo.execute_due()).done) == 1
    assert [each["ticket"] for each in demo.tracker_effects[before:]] == ["MCU-122"]


async def _undo(demo: DemoProcesses, project: ProjectId) -> None:
    """Undo and redo the delivery state, and export it."""
    path = f"/projects/{project}/artefacts/delivery_state"
    now = await demo.call_api("GET", path)
    lines = (await demo.call_api("GET", f"{path}/diff"))["lines"]
    assert lines
    undone = await demo.call_api("POST", f"{path}/undo", **{"if-match": f'"{now["version"]}"'})
    assert undone["version"] == now["version"] + 1
    assert undone["content"] != now["content"]
    redone = await demo.call_api("POST", f"{path}/undo", **{"if-match": f'"{undone["version"]}"'})
    assert redone["content"] == now["content"]
    exported = await demo.call_api("GET", f"{path}/export?format=md")
    assert "MCU-142" in exported


async def _make_digest(demo: DemoProcesses) -> None:
    """Check that the digest is made once and mailed once."""
    made = await demo.make_daily_digest()
    assert made is not None and "Member Centre Upgrade" in made.text
    assert await demo.make_daily_digest() is None
    await demo.advance_past_hold()
    assert len((await demo.execute_due()).done) == 1
    assert [each["text"] for each in demo.sent_mails] == [made.text]
    assert (await demo.execute_due()).done == []


async def _compare_feeds(demo: DemoProcesses) -> None:
    """Check that the feed and the days have the same events, and that each external effect happened once."""
    feed = await demo.stores.all(patterns.recent_events())
    days = {each.created_at.date() for each in feed}
    of_days = [each for day in sorted(days) for each in await demo.stores.all(patterns.events_of_day(day))]
    assert Counter(each.id for each in feed) == Counter(each.id for each in of_days)
    references = [each["reference"] for each in (*demo.tracker_effects, *demo.sent_mails)]
    assert len(references) == len(set(references)) > 0


async def _run_cycle(demo: DemoProcesses) -> CycleReport:
    """Run one turn and return its only cycle, which must have no errors."""
    turn = await demo.run_turn()
    assert turn.skip_reason is None, turn.skip_reason
    (cycle,) = turn.cycles
    assert cycle.errors == []
    return cycle


async def _get_artefact(demo: DemoProcesses, project: ProjectId, type: str) -> Any:
    return await demo.call_api("GET", f"/projects/{project}/artefacts/{type}")
