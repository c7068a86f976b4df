"""The agent from onboarding to the digest, on each engine: what it reads, keeps, asks, does once, and takes back."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agenticpm import patterns
from agenticpm.autonomy import DO_IT
from agenticpm.contents import ArtefactType, checked_content
from agenticpm.model import ProjectId
from agenticpm.rounds import Cycle
from agenticpm.stage import Stage, onboarded
from holdfast.web.sandboxes import Faults
from tests.acceptance.agenticpm.engines import ENGINES, played

BLOCKED = 5
BETA = "Beta launch"


@pytest.mark.proves("AP-19")
@pytest.mark.proves("AP-21")
@pytest.mark.proves("AP-23")
@pytest.mark.proves("AP-33")
@pytest.mark.parametrize("engine", ENGINES)
def test_a_project_is_looked_after_from_its_onboarding_to_its_digest(engine: str, tmp_path: Path) -> None:
    async def story(stage: Stage) -> None:
        project = await _onboarded(stage)
        await _first_cycle(stage, project)
        await _held_and_done_once(stage, project)
        await _asked_and_decided(stage, project)
        await _let_do(stage, project)
        await _undone(stage, project)
        await _digest(stage)
        await _feeds_agree(stage)

    played(engine, tmp_path, story)


async def _onboarded(stage: Stage) -> ProjectId:
    checked = await stage.ask("POST", "/integrations/jira/check")
    assert checked["health"]["is_ok"]
    await stage.ask("PUT", "/config/digest_recipients", {"value": "sponsor@example.com", "by": "the sponsor"})
    project = await onboarded(stage)
    listed = (await stage.ask("GET", "/projects"))["items"]
    assert [each["id"] for each in listed] == [project]
    await stage.morning()
    return project


async def _first_cycle(stage: Stage, project: ProjectId) -> None:
    cycle = await _cycle(stage)
    assert (cycle.tickets, cycle.errors) == (47, [])
    events = (await stage.ask("GET", f"/projects/{project}/events"))["items"]
    told = [each["detail"] for each in events if each["eventType"] == "signal_detected"]
    blocked = {each["subject"]: each for each in told if each["signal"] == "blocked"}
    assert len(blocked) == BLOCKED
    for subject, each in blocked.items():
        (evidence,) = each["evidence"]
        assert evidence["ticket"] == subject and {"field", "after", "at"} <= set(evidence)
    for type in ArtefactType:
        kept = await stage.ask("GET", f"/projects/{project}/artefacts/{type}")
        assert kept["version"] == 1
        checked_content(type, kept["content"])
    state = (await _artefact(stage, project, "delivery_state"))["content"]
    assert sorted(each["source_ticket"] for each in state["blockers"]) == sorted(blocked)
    quiet = await _cycle(stage)
    assert (quiet.tickets, quiet.signals, quiet.artefacts) == (0, [], [])


async def _held_and_done_once(stage: Stage, project: ProjectId) -> None:
    held = (await stage.ask("GET", "/actions/held"))["items"]
    assert len(held) >= 3
    cancelled, edited, *others = held
    path = f"/projects/{project}/actions"
    await stage.ask("POST", f"{path}/{cancelled['id']}/cancel", {"by": "the lead"})
    text = "Who can help here?"
    await stage.ask("PATCH", f"{path}/{edited['id']}", {"by": "the lead", "detail": {"text": text}})
    assert (await stage.execute()).done == []
    assert list(stage.at_tracker) == []

    await stage.hold_over()
    # Jira comments, and its answer is lost; later each is looked up, and not made again.
    stage.jira.faults = Faults(failed_after=1.0)
    assert len((await stage.execute()).later) == len(held) - 1
    stage.jira.faults = Faults()
    stage.clock.advance(120)
    assert len((await stage.execute()).done) == len(held) - 1
    assert (await stage.execute()).done == []
    said = {each["ticket"]: each["body"]["content"][0]["content"][0]["text"] for each in stage.at_tracker}
    assert len(stage.at_tracker) == len(said) == len(held) - 1
    assert said[edited["detail"]["ticket"]] == text
    assert cancelled["detail"]["ticket"] not in said
    assert (await stage.ask("GET", "/actions/held"))["items"] == []
    done = await stage.ask("GET", f"{path}/{edited['id']}")
    assert (done["executed"], done["status"]) == (True, "processed")
    for each in others:
        assert (await stage.ask("GET", f"{path}/{each['id']}"))["executed"] is True


async def _asked_and_decided(stage: Stage, project: ProjectId) -> None:
    today = datetime.fromtimestamp(stage.clock.now(), UTC)
    stage.jira.desk.put_version("MCU", BETA, releaseDate=(today - timedelta(days=3)).date().isoformat())
    cycle = await _cycle(stage)
    assert "slipping_milestone" in {str(each.kind) for each in cycle.signals}
    (asked,) = [each for each in (await stage.ask("GET", "/escalations"))["items"] if BETA in each["title"]]
    assert all(each["pros"] and each["cons"] for each in asked["options"])
    body = {"decision": "Cut the scope", "notes": "The date is promised.", "by": "the sponsor"}
    path = f"/projects/{project}/escalations/{asked['id']}/decision"
    decided = await stage.ask("POST", path, body)
    assert (decided["status"], decided["userDecision"]) == ("decided", "Cut the scope")
    (made,) = (await _artefact(stage, project, "decision_log"))["content"]["decisions"]
    assert (made["decision"], made["rationale"], made["made_by"]) == (
        "Cut the scope",
        "The date is promised.",
        "the sponsor",
    )
    assert datetime.fromisoformat(made["date"]) == datetime.fromisoformat(decided["decidedAt"])
    status, reason = await stage.refused("POST", path, body | {"decision": "Keep both"})
    assert status == 409 and "'Cut the scope' was chosen" in reason
    ended = (await stage.ask("GET", "/escalations?status=decided"))["items"]
    assert [each["id"] for each in ended] == [asked["id"]]


async def _let_do(stage: Stage, project: ProjectId) -> None:
    """The agent may not comment any more: it asks, and is let."""
    await stage.ask("PATCH", f"/projects/{project}", {"config": {"allowed_actions": []}})
    await stage.edit("MCU-122", flagged=True)
    await _cycle(stage)
    (asked,) = (await stage.ask("GET", "/escalations"))["items"]
    assert asked["context"]["failing"] == ["boundary_compliance"]
    before = len(stage.at_tracker)
    path = f"/projects/{project}/escalations/{asked['id']}/decision"
    await stage.ask("POST", path, {"decision": DO_IT, "by": "the lead"})
    assert len((await stage.execute()).done) == 1
    assert [each["ticket"] for each in stage.at_tracker[before:]] == ["MCU-122"]


async def _undone(stage: Stage, project: ProjectId) -> None:
    path = f"/projects/{project}/artefacts/delivery_state"
    now = await stage.ask("GET", path)
    lines = (await stage.ask("GET", f"{path}/diff"))["lines"]
    assert lines
    undone = await stage.ask("POST", f"{path}/undo", **{"if-match": f'"{now["version"]}"'})
    assert undone["version"] == now["version"] + 1
    assert undone["content"] != now["content"]
    redone = await stage.ask("POST", f"{path}/undo", **{"if-match": f'"{undone["version"]}"'})
    assert redone["content"] == now["content"]
    exported = await stage.ask("GET", f"{path}/export?format=md")
    assert "MCU-142" in exported


async def _digest(stage: Stage) -> None:
    made = await stage.daily()
    assert made is not None and "Member Centre Upgrade" in made.text
    assert await stage.daily() is None
    await stage.hold_over()
    assert len((await stage.execute()).done) == 1
    assert [each["text"] for each in stage.mails] == [made.text]
    assert (await stage.execute()).done == []


async def _feeds_agree(stage: Stage) -> None:
    """Each event stands in its project, in the feed of all and in its day, under one id; effects are each there once."""
    feed = await stage.stores.all(patterns.recent_events())
    days = {each.created_at.date() for each in feed}
    of_days = [each for day in sorted(days) for each in await stage.stores.all(patterns.events_of_day(day))]
    assert Counter(each.id for each in feed) == Counter(each.id for each in of_days)
    references = [each["reference"] for each in (*stage.at_tracker, *stage.mails)]
    assert len(references) == len(set(references)) > 0


async def _cycle(stage: Stage) -> Cycle:
    turn = await stage.turn()
    assert turn.why_not is None, turn.why_not
    (cycle,) = turn.cycles
    assert cycle.errors == []
    return cycle


async def _artefact(stage: Stage, project: ProjectId, type: str) -> Any:
    return await stage.ask("GET", f"/projects/{project}/artefacts/{type}")
