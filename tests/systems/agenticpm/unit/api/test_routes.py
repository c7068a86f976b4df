"""Tests of AgenticPM's API over real HTTP with stores in memory: requests of people, and problems."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from agenticpm.api.routes import build_routes
from agenticpm.model import agent_settings, patterns, projects
from agenticpm.model.entities import Action, Escalation, Project
from agenticpm.system import SYSTEM
from holdfast import Stores, open_memory_stores, provision
from holdfast.web import make_app, serve_in_thread
from holdfast_demo.agenticpm.sandbox.resend import ResendSandbox, build_resend_app
from tests.cases import all_cases
from tests.systems.agenticpm.unit.samples import (
    NOON,
    ManualClock,
    create_escalation,
    create_project,
    hold_comment,
    hold_mail,
    make_raid_log,
    make_risk,
    refuse_action,
)

KEY = "re_8fJk2LmQ_4nTzXcVbNm1AsDfGh"


@dataclass
class ApiHarness:
    """The API client, the stores behind the API, and the clock of both."""

    http: httpx.Client
    stores: Stores
    clock: ManualClock

    def get(self, path: str, **params: Any) -> Any:
        """Send a GET request that must succeed and return its body."""
        return get_json(self.http.get(path, params=params))

    def create_project(self, **changes: Any) -> Project:
        """Create a project and advance the clock by a second: events of one millisecond have no order."""
        made = asyncio.run(create_project(self.stores, **changes))
        self.clock.seconds += 1
        return made


@pytest.fixture
async def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ApiHarness]:
    """Serve the API with the rights of `api` over HTTP, on stores in memory."""
    monkeypatch.setenv("HOLDFAST_KEYS", f"file:{tmp_path / 'keys.json'}")
    clock = ManualClock()
    stores = open_memory_stores(SYSTEM, clock=clock)
    await provision(stores, SYSTEM)
    app = make_app("AgenticPM", "1", build_routes(stores.for_component("api")))
    with serve_in_thread(app) as url, httpx.Client(base_url=url, timeout=30) as client:
        yield ApiHarness(client, stores, clock)
    await stores.close()


def get_json(answer: httpx.Response, status: int = 200) -> Any:
    """Check the status and return the body."""
    assert answer.status_code == status, answer.text
    return answer.json()


def get_problem(answer: httpx.Response, status: int) -> str:
    """Check that the answer is a problem with this status, and return its text."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = answer.json()
    return json.dumps(body)


# --- projects -----------------------------------------------------------------------------------------------


@pytest.mark.proves("AP-11", "AP-29", "AP-34")
def test_creates_reads_changes_pauses_and_lists_a_project(api: ApiHarness) -> None:
    wanted = {"name": "Member profile", "source": "jira", "sourceProjectKey": "MCU", "config": {"mail": True}}
    made = get_json(api.http.post("/projects", json=wanted), 201)
    path = f"/projects/{made['id']}"
    assert api.get(path) == made
    assert made["config"] == {"mail": True}
    assert made["createdAt"] == "2026-02-04T01:00:00.000Z"
    changed = get_json(
        api.http.patch(path, json={"autonomyLevel": "tactical", "seenUpdatedAt": made["updatedAt"]})
    )
    assert (changed["autonomyLevel"], changed["name"]) == ("tactical", "Member profile")
    assert get_json(api.http.put(path + "/status", json={"status": "paused"}))["status"] == "paused"
    assert api.get("/projects")["items"] == []
    assert [each["id"] for each in api.get("/projects", status="paused")["items"]] == [made["id"]]
    stale = {"name": "Another", "seenUpdatedAt": made["updatedAt"]}
    assert "read it again" in get_problem(api.http.patch(path, json=stale), 409)
    zoneless = {"name": "Another", "seenUpdatedAt": "2026-02-04T01:00:00"}
    assert "timezone" in get_problem(api.http.patch(path, json=zoneless), 422)


@pytest.mark.proves("AP-28")
def test_rejects_invalid_project_values_and_lists_the_valid_ones(api: ApiHarness) -> None:
    """An invalid status, source, name or id, and an unknown project."""
    project = api.create_project()
    text = get_problem(api.http.put(f"/projects/{project.id}/status", json={"status": "done"}), 422)
    assert all(each in text for each in ("active", "paused", "archived"))
    assert "archived" in get_problem(api.http.get("/projects", params={"status": "done"}), 422)
    wanted = {"name": "x", "source": "trello", "sourceProjectKey": "X"}
    assert "asana" in get_problem(api.http.post("/projects", json=wanted), 422)
    assert "1 to 200" in get_problem(
        api.http.post("/projects", json=wanted | {"source": "jira", "name": ""}), 400
    )
    assert get_problem(api.http.get(f"/projects/{uuid4()}"), 404)
    assert "Invalid project id" in get_problem(api.http.get("/projects/MCU"), 400)


def test_list_continues_from_its_cursor(api: ApiHarness) -> None:
    ids = {api.create_project(name=f"Project {each}", source_project_key=f"P{each}").id for each in range(3)}
    first = api.get("/projects", limit=2)
    second = api.get("/projects", limit=2, cursor=first["cursor"])
    assert {each["id"] for each in first["items"] + second["items"]} == ids
    assert second["cursor"] is None


# --- artefacts, events, escalations -------------------------------------------------------------------------


def test_puts_reads_compares_and_undoes_an_artefact_by_version(api: ApiHarness) -> None:
    path = f"/projects/{api.create_project().id}/artefacts/raid_log"
    first, second = (
        make_raid_log(make_risk("R001")),
        make_raid_log(make_risk("R001"), make_risk("R002", "The key person leaves")),
    )
    made = api.http.put(path, json=first, params={"version": 0})
    assert get_json(made)["version"] == 1 and made.headers["etag"] == '"1"'
    changed = api.http.put(path, json=second, headers={"if-match": '"1"'})
    assert get_json(changed)["version"] == 2
    assert get_json(changed)["canUndo"] is True
    diff = api.get(path + "/diff")
    assert [(each["path"], each["kind"]) for each in diff["differences"]] == [("items[R002]", "added")]
    assert diff["lines"] == ["+ items[R002]: The key person leaves"]
    undone = api.http.post(path + "/undo", headers={"if-match": '"2"'})
    assert get_json(undone)["version"] == 3 and undone.headers["etag"] == '"3"'
    assert api.get(path)["content"] == first
    assert [each["type"] for each in api.get(path.removesuffix("/raid_log"))] == ["raid_log"]
    unchanged = api.http.get(path, headers={"if-none-match": '"3"'})
    assert (unchanged.status_code, unchanged.content) == (304, b"")


def test_rejects_a_stale_version_with_the_remedy_and_writes_nothing(api: ApiHarness) -> None:
    """Also a missing, invalid or contradictory expected version."""
    path = f"/projects/{api.create_project().id}/artefacts/raid_log"
    first, second = make_raid_log(make_risk("R001")), make_raid_log(make_risk("R002"))
    api.http.put(path, json=first, params={"version": 0})
    assert "read it again" in get_problem(api.http.put(path, json=second, headers={"if-match": '"7"'}), 412)
    assert "read it again" in get_problem(api.http.put(path, json=second, params={"version": 0}), 409)
    assert "If-Match" in get_problem(api.http.put(path, json=second), 428)
    assert get_problem(api.http.put(path, json=second, headers={"if-match": "one"}), 400)
    assert get_problem(
        api.http.put(path, json=second, headers={"if-match": '"1"'}, params={"version": 2}), 400
    )
    assert "read it again" in get_problem(api.http.post(path + "/undo", headers={"if-match": '"7"'}), 412)
    assert api.get(path)["content"] == first
    assert api.get(path)["version"] == 1


def test_undo_with_nothing_to_undo_is_a_conflict(api: ApiHarness) -> None:
    path = f"/projects/{api.create_project().id}/artefacts/raid_log"
    assert "has no raid_log yet" in get_problem(api.http.post(path + "/undo", params={"version": 0}), 404)
    api.http.put(path, json=make_raid_log(make_risk("R001")), params={"version": 0})
    assert "nothing to undo" in get_problem(api.http.post(path + "/undo", headers={"if-match": '"1"'}), 409)
    assert api.get(path + "/diff")["differences"] == []


def test_rejects_an_invalid_artefact_with_the_reason(api: ApiHarness) -> None:
    path = f"/projects/{api.create_project().id}/artefacts/raid_log"
    wrong = make_raid_log(make_risk("R001", severity="awful"))
    assert "severity" in get_problem(api.http.put(path, json=wrong, params={"version": 0}), 400)
    assert get_problem(api.http.get(path), 404)
    assert get_problem(api.http.get(path.replace("raid_log", "wish_list")), 422)


def test_exports_an_artefact(api: ApiHarness) -> None:
    path = f"/projects/{api.create_project().id}/artefacts/raid_log"
    api.http.put(path, json=make_raid_log(make_risk("R001")), params={"version": 0})
    page = api.http.get(path + "/export")
    assert page.headers["content-type"] == "text/markdown; charset=utf-8"
    assert "R001" in page.text
    table = api.http.get(path + "/export", params={"format": "csv"})
    assert table.headers["content-type"] == "text/csv; charset=utf-8"
    assert "R001" in table.text.splitlines()[1]
    assert get_problem(api.http.get(path + "/export", params={"format": "pdf"}), 422)


@pytest.mark.proves("AP-33", "AP-37", "AP-38")
def test_lists_events_newest_first_with_cursors_and_a_day_in_full(api: ApiHarness) -> None:
    project = api.create_project()
    for status in ("paused", "active", "archived"):
        api.clock.seconds += 60
        asyncio.run(projects.change_status(api.stores, project.id, status))
    path = f"/projects/{project.id}/events"
    first = api.get(path, limit=3)
    rest = api.get(path, limit=3, cursor=first["cursor"])
    mine = [each["id"] for each in first["items"] + rest["items"]]
    assert len(mine) == 4
    assert first["items"][0]["detail"]["after"] == "archived"
    feed = api.get("/events")["items"]
    assert [each["id"] for each in feed] == mine
    assert all(each["detail"] is None for each in feed)
    day = api.get("/events/2026-02-04")["items"]
    assert [each["id"] for each in day] == mine[::-1]
    assert day[-1]["detail"]["after"] == "archived"
    assert api.get("/events/2026-02-05")["items"] == []
    assert get_problem(api.http.get("/events/yesterday"), 422)


@pytest.mark.proves("AP-33")
def test_finds_an_escalation_and_decides_it_once_with_the_decision_log(api: ApiHarness) -> None:
    project = api.create_project()
    question: Escalation = asyncio.run(create_escalation(api.stores, project))
    path = f"/projects/{project.id}/escalations/{question.id}"
    assert [each["id"] for each in api.get("/escalations")["items"]] == [question.id]
    assert api.get(path)["agentRecommendation"] == "Delay"
    wrong = {"decision": "Cancel everything", "by": "ada"}
    assert "Delay, Rush" in get_problem(api.http.post(path + "/decision", json=wrong), 400)
    made = {"decision": "Rush", "notes": "The fair is fixed", "by": "ada"}
    decided = get_json(api.http.post(path + "/decision", json=made))
    assert (decided["status"], decided["userDecision"]) == ("decided", "Rush")
    log = api.get(f"/projects/{project.id}/artefacts/decision_log")["content"]["decisions"]
    assert [(each["decision"], each["made_by"]) for each in log] == [("Rush", "ada")]
    again = get_problem(api.http.post(path + "/decision", json=made | {"decision": "Delay"}), 409)
    assert "'Rush' was chosen" in again
    assert api.get("/escalations")["items"] == []
    assert len(api.get("/escalations", status="decided")["items"]) == 1
    assert len(api.get(f"/projects/{project.id}/escalations")) == 1
    assert get_problem(api.http.get(f"/projects/{project.id}/escalations/{uuid4()}"), 404)
    assert get_problem(api.http.get("/escalations", params={"status": "open"}), 422)


# --- actions ------------------------------------------------------------------------------------------------


@pytest.mark.proves("AP-40")
def test_lists_edits_and_approves_held_actions_with_the_reviewer(api: ApiHarness) -> None:
    project = api.create_project()
    action: Action = asyncio.run(hold_mail(api.stores, project))
    path = f"/projects/{project.id}/actions/{action.id}"
    [waits] = api.get("/actions/held")["items"]
    assert (waits["id"], waits["heldUntil"]) == (action.id, "2026-02-04T01:30:01.000Z")
    assert "owner" not in waits and "payloadSha256" not in waits
    api.clock.seconds += 60
    edited = get_json(api.http.patch(path, json={"by": "ada", "detail": {"text": "Please hurry."}}))
    assert edited["detail"]["text"] == "Please hurry."
    assert edited["detail"]["because"]["signal"] == "blocked"
    assert edited["heldUntil"] == "2026-02-04T01:30:01.000Z"
    api.clock.seconds += 1
    approved = get_json(api.http.post(path + "/approve", json={"by": "ada"}))
    assert (approved["reviewedBy"], approved["review"]) == ("ada", "approved")
    assert approved["heldUntil"] == "2026-02-04T01:01:02.000Z"
    assert api.get(path) == approved
    types = [each["eventType"] for each in api.get(f"/projects/{project.id}/events")["items"]]
    assert types == ["action_approved", "action_edited", "action_held", "project_changed"]


def test_cancelled_action_is_no_longer_held_and_cannot_be_approved(api: ApiHarness) -> None:
    project = api.create_project()
    action: Action = asyncio.run(hold_comment(api.stores, project))
    path = f"/projects/{project.id}/actions/{action.id}"
    api.clock.seconds += 1
    cancelled = get_json(api.http.post(path + "/cancel", json={"by": "bo", "reason": "Was answered"}))
    assert (cancelled["status"], cancelled["review"], cancelled["executed"]) == (
        "cancelled",
        "Was answered",
        False,
    )
    assert api.get("/actions/held")["items"] == []
    assert "was cancelled by bo" in get_problem(api.http.post(path + "/approve", json={"by": "ada"}), 409)
    assert "was cancelled by bo" in get_problem(
        api.http.patch(path, json={"by": "ada", "detail": {"text": "x"}}), 409
    )
    events = api.get(f"/projects/{project.id}/events")["items"]
    assert [each["eventType"] for each in events] == ["action_cancelled", "action_held", "project_changed"]
    assert len(api.get(f"/projects/{project.id}/actions")["items"]) == 1


@all_cases(
    ("detail", "message"),
    [
        ({"kind": "move"}, "Cannot edit kind of this action. Editable: to, subject, text"),
        ({"because": {}}, "Cannot edit because of this action"),
        ({"to": []}, "A mail needs a recipient"),
        ({"to": "lead@acme.example"}, "to must be a list"),
        ({"to": ["nobody"]}, "to must be a list of mail addresses"),
        ({"subject": ""}, "A mail needs"),
        ({"text": 7}, "A mail needs"),
        ({"subject": "Hello\r\nBcc: everybody@acme.example"}, "subject must be one line"),
        ({}, "Invalid edit: no changes"),
    ],
)
def test_rejects_an_edit_that_cannot_be_sent(api: ApiHarness, detail: dict[str, Any], message: str) -> None:
    action: Action = asyncio.run(hold_mail(api.stores, None))
    path = f"/projects/global/actions/{action.id}"
    assert message in get_problem(api.http.patch(path, json={"by": "ada", "detail": detail}), 400)
    assert api.get(path)["detail"] == action.detail


@pytest.mark.proves("AP-40")
def test_reopens_only_refused_actions_and_records_the_reviewer(api: ApiHarness) -> None:
    project = api.create_project()
    action: Action = asyncio.run(hold_mail(api.stores, project))
    path = f"/projects/{project.id}/actions/{action.id}"
    assert get_problem(api.http.post(path + "/reopen", json={"by": "ada"}), 409)
    api.clock.seconds += 1801
    asyncio.run(refuse_action(api.stores, action))
    assert api.get(path)["refused"] == "422"
    assert get_problem(api.http.post(path + "/reopen", json={"by": " "}), 400)
    assert get_problem(api.http.post(path + "/reopen", json={}), 422)
    api.clock.seconds += 60
    reopened = get_json(api.http.post(path + "/reopen", json={"by": "ada"}))
    assert (reopened["status"], reopened["refused"], reopened["review"]) == ("held", None, "reopened")
    assert (reopened["reviewedBy"], reopened["heldUntil"]) == ("ada", "2026-02-04T01:31:02.000Z")
    assert [each["id"] for each in api.get("/actions/held")["items"]] == [action.id]
    event = api.get(f"/projects/{project.id}/events")["items"][0]
    assert (event["eventType"], event["detail"]["refused"]) == ("action_reopened", "422")
    assert (event["detail"]["by"], event["detail"]["action"]) == ("ada", action.id)
    assert get_problem(api.http.post(path + "/reopen", json={"by": "ada"}), 409)


def test_action_without_a_project_is_under_global(api: ApiHarness) -> None:
    action: Action = asyncio.run(hold_mail(api.stores, None))
    assert api.get(f"/projects/global/actions/{action.id}")["projectId"] is None
    assert get_problem(api.http.get(f"/projects/{api.create_project().id}/actions/{action.id}"), 404)
    for wrong in ("not-an-id", "7ZZZZZZZZZZZZZZZZZZZZZZZZZ"):
        assert get_problem(api.http.get(f"/projects/global/actions/{wrong}"), 400)
        assert get_problem(api.http.get(f"/why/{wrong}"), 400)


# --- settings, integrations, the agent ----------------------------------------------------------------------


@pytest.mark.proves("AP-43", "AP-44")
async def test_lists_sets_and_validates_settings(api: ApiHarness) -> None:
    await agent_settings.seed(api.stores)
    assert len(api.get("/config")) == 5
    assert api.get("/config/budget_ceiling_daily_usd")["value"] == 0.33
    assert get_json(api.http.put("/config/hold_queue_minutes", json={"value": 5}))["value"] == 5
    assert api.get("/config/hold_queue_minutes")["value"] == 5
    assert "0 to 10080" in get_problem(api.http.put("/config/hold_queue_minutes", json={"value": -5}), 400)
    assert "working_hours" in get_problem(api.http.put("/config/colour", json={"value": "red"}), 400)
    assert get_problem(api.http.get("/config/colour"), 404)


@pytest.mark.proves("AP-25", "AP-42")
def test_puts_checks_and_rotates_an_integration_without_showing_a_secret(api: ApiHarness) -> None:
    sandbox = ResendSandbox(api_key=KEY)
    with serve_in_thread(build_resend_app(sandbox)) as url:
        credentials = {"base_url": url, "api_key": KEY, "sender": "agent@acme.example"}
        answers = [api.http.put("/integrations/resend/credentials", json=credentials)]
        answers.append(api.http.post("/integrations/resend/check"))
        assert answers[-1].json()["health"]["is_ok"] is True, answers[-1].text
        wrong = credentials | {"api_key": "re_wrong_" + KEY}
        answers.append(api.http.post("/integrations/resend/rotate", json=wrong))
        answers.append(api.http.post("/integrations/resend/check"))
        assert answers[-1].json()["state"]["status"] == "error"
        answers.append(api.http.post("/integrations/resend/rotate"))
        answers.append(api.http.post("/integrations/resend/deactivate"))
    answers += [api.http.get("/integrations"), api.http.get("/events")]
    assert all(each.status_code == 200 for each in answers)
    refused = api.http.put("/integrations/resend/credentials", json=credentials | {"sender": [KEY]})
    assert "sender" in get_problem(refused, 400)
    assert not [each for each in (*answers, refused) if KEY in each.text]
    assert api.get("/integrations/resend")["status"] == "inactive"
    assert api.get("/integrations/jira")["is_configured"] is False
    assert get_problem(api.http.post("/integrations/jira/check"), 404)
    assert get_problem(api.http.put("/integrations/trello/credentials", json={}), 422)


def test_agent_is_dead_after_three_intervals_without_a_heartbeat(api: ApiHarness) -> None:
    assert api.get("/agent")["liveness"] == "idle"
    project = api.create_project()
    beat = patterns._example_checkpoint().model_copy(
        update={"project_id": project.id, "integration": "agent", "checkpoint_key": "last_cycle"}
    )
    asyncio.run(api.stores.run(patterns.put_checkpoint(beat, None)))  # at noon
    api.clock.seconds = NOON.timestamp() + 45 * 60
    state = api.get("/agent")
    assert (state["liveness"], state["heartbeat_age_s"]) == ("alive", 2700)
    assert (state["spent_usd"], state["ceiling_usd"], state["loop"]) == (0, 0.33, None)
    api.clock.seconds += 60
    state = api.get("/agent")
    assert state["liveness"] == "dead" and "holdfast run agenticpm" in state["says"]
    assert [each["is_late"] for each in state["cycles"]] == [True]


def test_agent_has_three_intervals_to_return_after_a_night(api: ApiHarness) -> None:
    project = api.create_project()
    evening = NOON.timestamp() + 6 * 3600 - 60  # 17:59 in Sydney
    api.clock.seconds = evening
    beat = patterns._example_checkpoint().model_copy(
        update={"project_id": project.id, "integration": "agent", "checkpoint_key": "last_cycle"}
    )
    api.clock.seconds += 3600
    assert api.get("/agent")["liveness"] == "resting"
    morning = evening + 60 + 14 * 3600  # 08:00
    at = {"updated_at": beat.updated_at.fromtimestamp(evening, beat.updated_at.tzinfo)}
    asyncio.run(api.stores.run(patterns.put_checkpoint(beat.model_copy(update=at), None)))
    api.clock.seconds = morning + 44 * 60
    assert api.get("/agent")["liveness"] == "alive"
    api.clock.seconds = morning + 46 * 60
    assert api.get("/agent")["liveness"] == "dead"


async def test_reports_the_instance_that_runs_the_loop(api: ApiHarness) -> None:
    token = (await patterns.LEASE.take(api.stores, patterns.LOOP)).token
    assert api.get("/agent")["loop"]["token"] == token
    api.clock.seconds += patterns.LEASE_S
    assert api.get("/agent")["loop"] is None


def test_why_reports_what_led_to_an_action(api: ApiHarness) -> None:
    project = api.create_project()
    action: Action = asyncio.run(hold_comment(api.stores, project))
    explanation = api.get(f"/why/{project.id}/{action.id}")
    assert explanation == api.get(f"/why/{action.id}")
    assert any("In Progress → Blocked" in each for each in explanation["lines"])
    assert get_problem(api.http.get("/why/nothing"), 400)
