"""Acceptance tests of bad input, of people over HTTP and of the tracker, on each engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agenticpm.model import patterns
from agenticpm.model.entities import Option, ProjectId
from agenticpm.workers import escalations
from holdfast_demo.agenticpm.demo_processes import DemoProcesses, onboard_project
from tests.systems.agenticpm.acceptance.engines import ENGINES, open_demo_on, scan_table
from tests.systems.agenticpm.unit.samples import make_raid_log, make_risk


@pytest.mark.proves("AP-14", "AP-15", "AP-21", "AP-28")
@pytest.mark.parametrize("engine", ENGINES)
async def test_rejects_invalid_requests_and_writes_nothing(engine: str, tmp_path: Path) -> None:
    async with open_demo_on(engine, tmp_path) as demo:
        project = await onboard_project(demo)
        log = f"/projects/{project}/artefacts/raid_log"
        await demo.call_api("PUT", log, make_raid_log(make_risk("R001")), **{"if-match": '"0"'})
        decision = await _create_decided_question(demo, project)
        before = await scan_table(demo)

        seen = {"if-match": '"1"'}
        broken = make_raid_log(make_risk("R001", severity="dreadful"))
        await assert_refused(demo, "PUT", log, broken, status=400, reason="severity", **seen)
        await assert_refused(demo, "PUT", log, {"items": "none"}, status=400, reason="items", **seen)
        twice = make_raid_log(make_risk("R001"), make_risk("R001"))
        await assert_refused(demo, "PUT", log, twice, status=400, reason="R001", **seen)
        for stale in ("0", "7"):
            old = {"if-match": f'"{stale}"'}
            await assert_refused(demo, "PUT", log, make_raid_log(), status=412, reason="version 1", **old)
        await assert_refused(demo, "POST", f"{log}/undo", status=409, reason="nothing to undo", **seen)
        status = {"status": "retired"}
        await assert_refused(
            demo, "PUT", f"/projects/{project}/status", status, status=422, reason="archived"
        )
        again = {"decision": "Rush", "by": "the lead"}
        await assert_refused(demo, "POST", decision, again, status=409, reason="'Delay' was chosen")

        assert await scan_table(demo) == before


async def assert_refused(
    demo: DemoProcesses,
    method: str,
    path: str,
    body: Any = None,
    *,
    status: int,
    reason: str,
    **headers: str,
) -> None:
    """Send a request and check the status, that it is problem+json, and that its text contains the reason."""
    answer = await demo.http.request(method, path, json=body, headers=headers)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert reason in answer.text


async def _create_decided_question(demo: DemoProcesses, project: ProjectId) -> str:
    """Create and decide a question. Return the path of its decision."""
    options = [Option(option="Delay", pros=["a"]), Option(option="Rush", cons=["b"])]
    writes = await escalations.build_escalation(
        demo.stores, project, title="Beta is at risk", context={"summary": "x"}, options=options
    )
    await demo.stores.transact(*writes)
    (found,) = await demo.call_api("GET", f"/projects/{project}/escalations")
    path = f"/projects/{project}/escalations/{found['id']}/decision"
    await demo.call_api("POST", path, {"decision": "Delay", "by": "the lead"})
    return path


@pytest.mark.parametrize("engine", ENGINES)
async def test_records_an_invalid_tracker_response_as_an_error_and_recovers(
    engine: str, tmp_path: Path
) -> None:
    """An issue with invalid fields fails the tracker part; the next cycle reads everything."""
    async with open_demo_on(engine, tmp_path) as demo:
        project = await onboard_project(demo)
        await demo.advance_to_morning()
        issue = demo.jira.data.find_issue("MCU-142")
        assert issue is not None
        before, fields = await scan_table(demo), issue["fields"]
        issue["fields"] = fields | {"updated": fields["updated"], "status": "somewhere", "created": 7}

        (cycle,) = (await demo.run_turn()).cycles

        assert (cycle.errors, cycle.signals, cycle.artefacts) == (["tracker"], [], [])
        events = {each.event_type: each for each in await demo.stores.all(patterns.project_events(project))}
        assert set(events) == {"project_changed", "error", "heartbeat"}
        assert events["error"].severity == "error" and "jira" in events["error"].summary.lower()
        new = {key[1].partition("#")[0] for key in set(await scan_table(demo)) - set(before)}
        assert new == {"EVENT", "CHECKPOINT", "LEASE"}
        assert await demo.stores.run(patterns.checkpoint(project, "jira", "last_sync")) is None

        issue["fields"] = fields
        (cycle,) = (await demo.run_turn()).cycles
        assert (cycle.errors, cycle.tickets) == ([], 47)
