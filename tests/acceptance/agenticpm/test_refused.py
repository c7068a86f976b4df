"""Bad input, on each engine: refused with the reason, nothing half-written, and an error event where the agent meets it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agenticpm.demo.demo_processes import DemoProcesses, onboard_project
from agenticpm.model import escalations, patterns
from agenticpm.model.entities import Option, ProjectId
from tests.acceptance.agenticpm.engines import ENGINES, items, played
from tests.unit.agenticpm.samples import raid_log, risk


@pytest.mark.proves("AP-14")
@pytest.mark.proves("AP-15")
@pytest.mark.proves("AP-21")
@pytest.mark.proves("AP-28")
@pytest.mark.parametrize("engine", ENGINES)
def test_what_people_send_and_cannot_be_is_refused_and_leaves_nothing(engine: str, tmp_path: Path) -> None:
    async def story(stage: DemoProcesses) -> None:
        project = await onboard_project(stage)
        log = f"/projects/{project}/artefacts/raid_log"
        await stage.call_api("PUT", log, raid_log(risk("R001")), **{"if-match": '"0"'})
        decision = await _decided(stage, project)
        before = await items(stage)

        seen = {"if-match": '"1"'}
        broken = raid_log(risk("R001", severity="dreadful"))
        await refused(stage, "PUT", log, broken, status=400, reason="severity", **seen)
        await refused(stage, "PUT", log, {"items": "none"}, status=400, reason="items", **seen)
        twice = raid_log(risk("R001"), risk("R001"))
        await refused(stage, "PUT", log, twice, status=400, reason="R001", **seen)
        for stale in ("0", "7"):
            old = {"if-match": f'"{stale}"'}
            await refused(stage, "PUT", log, raid_log(), status=412, reason="version 1", **old)
        await refused(stage, "POST", f"{log}/undo", status=409, reason="nothing to undo", **seen)
        status = {"status": "retired"}
        await refused(stage, "PUT", f"/projects/{project}/status", status, status=422, reason="archived")
        again = {"decision": "Rush", "by": "the lead"}
        await refused(stage, "POST", decision, again, status=409, reason="'Delay' was chosen")

        assert await items(stage) == before

    played(engine, tmp_path, story)


async def refused(
    stage: DemoProcesses,
    method: str,
    path: str,
    body: Any = None,
    *,
    status: int,
    reason: str,
    **headers: str,
) -> None:
    answer = await stage.http.request(method, path, json=body, headers=headers)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert reason in answer.text


async def _decided(stage: DemoProcesses, project: ProjectId) -> str:
    """A question that was decided; the path at which it was."""
    options = [Option(option="Delay", pros=["a"]), Option(option="Rush", cons=["b"])]
    asked = await escalations.build_escalation(
        stage.stores, project, title="Beta is at risk", context={"summary": "x"}, options=options
    )
    await stage.stores.transact(*asked)
    (found,) = await stage.call_api("GET", f"/projects/{project}/escalations")
    path = f"/projects/{project}/escalations/{found['id']}/decision"
    await stage.call_api("POST", path, {"decision": "Delay", "by": "the lead"})
    return path


@pytest.mark.parametrize("engine", ENGINES)
def test_a_tracker_that_answers_nonsense_is_told_as_an_error_and_read_when_it_is_well(
    engine: str, tmp_path: Path
) -> None:
    async def story(stage: DemoProcesses) -> None:
        project = await onboard_project(stage)
        await stage.advance_to_morning()
        issue = stage.jira.data.find_issue("MCU-142")
        assert issue is not None
        before, fields = await items(stage), issue["fields"]
        issue["fields"] = fields | {"updated": fields["updated"], "status": "somewhere", "created": 7}

        (cycle,) = (await stage.run_turn()).cycles

        assert (cycle.errors, cycle.signals, cycle.artefacts) == (["tracker"], [], [])
        events = {each.event_type: each for each in await stage.stores.all(patterns.project_events(project))}
        assert set(events) == {"project_changed", "error", "heartbeat"}
        assert events["error"].severity == "error" and "jira" in events["error"].summary.lower()
        new = {key[1].partition("#")[0] for key in set(await items(stage)) - set(before)}
        assert new == {"EVENT", "CHECKPOINT", "LEASE"}
        assert await stage.stores.run(patterns.checkpoint(project, "jira", "last_sync")) is None

        issue["fields"] = fields
        (cycle,) = (await stage.run_turn()).cycles
        assert (cycle.errors, cycle.tickets) == ([], 47)

    played(engine, tmp_path, story)
