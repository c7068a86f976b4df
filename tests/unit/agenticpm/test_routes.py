"""AgenticPM over real HTTP, as the component `api`: what people do, and what they are told when it cannot be."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from agenticpm.api.routes import build_routes
from agenticpm.demo.sandbox.resend import ResendSandbox, build_resend_app
from agenticpm.model import agent_settings, patterns, projects
from agenticpm.model.entities import Action, Escalation, Project
from agenticpm.system import SYSTEM
from holdfast import Stores, open_memory_stores, provision
from holdfast.web import make_app, serve_in_thread
from tests.unit.agenticpm.samples import (
    NOON,
    HandClock,
    asked,
    held_comment,
    held_mail,
    made_project,
    raid_log,
    refused,
    risk,
)

KEY = "re_8fJk2LmQ_4nTzXcVbNm1AsDfGh"


@dataclass
class Door:
    """The API, the stores behind it and the clock of both."""

    http: httpx.Client
    stores: Stores
    clock: HandClock

    def got(self, path: str, **params: Any) -> Any:
        return answer_of(self.http.get(path, params=params))

    def project(self, **changes: Any) -> Project:
        """A new one, a second before all that follows: what happens in the same thousandth has no order."""
        made = asyncio.run(made_project(self.stores, **changes))
        self.clock.moment += 1
        return made


@pytest.fixture
def door(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Door]:
    monkeypatch.setenv("HOLDFAST_KEYS", f"file:{tmp_path / 'keys.json'}")
    clock = HandClock()
    stores = open_memory_stores(SYSTEM, clock=clock)
    asyncio.run(provision(stores, SYSTEM))
    app = make_app("AgenticPM", "1", build_routes(stores.for_component("api")))
    with serve_in_thread(app) as url, httpx.Client(base_url=url, timeout=30) as client:
        yield Door(client, stores, clock)
    asyncio.run(stores.close())


def answer_of(answer: httpx.Response, status: int = 200) -> Any:
    assert answer.status_code == status, answer.text
    return answer.json()


def problem(answer: httpx.Response, status: int) -> str:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    told: dict[str, Any] = answer.json()
    return json.dumps(told)


# --- projects -----------------------------------------------------------------------------------------------


@pytest.mark.proves("AP-11")
@pytest.mark.proves("AP-29")
@pytest.mark.proves("AP-34")
def test_a_project_is_made_read_changed_paused_and_listed(door: Door) -> None:
    wanted = {"name": "Member profile", "source": "jira", "sourceProjectKey": "MCU", "config": {"mail": True}}
    made = answer_of(door.http.post("/projects", json=wanted), 201)
    path = f"/projects/{made['id']}"
    assert door.got(path) == made
    assert made["config"] == {"mail": True}
    assert made["createdAt"] == "2026-02-04T01:00:00.000Z"
    changed = answer_of(
        door.http.patch(path, json={"autonomyLevel": "tactical", "seenUpdatedAt": made["updatedAt"]})
    )
    assert (changed["autonomyLevel"], changed["name"]) == ("tactical", "Member profile")
    assert answer_of(door.http.put(path + "/status", json={"status": "paused"}))["status"] == "paused"
    assert door.got("/projects")["items"] == []
    assert [each["id"] for each in door.got("/projects", status="paused")["items"]] == [made["id"]]
    stale = {"name": "Another", "seenUpdatedAt": made["updatedAt"]}
    assert "read it again" in problem(door.http.patch(path, json=stale), 409)
    zoneless = {"name": "Another", "seenUpdatedAt": "2026-02-04T01:00:00"}
    assert "timezone" in problem(door.http.patch(path, json=zoneless), 422)


@pytest.mark.proves("AP-28")
def test_an_unknown_status_source_or_level_is_refused_with_what_there_is(door: Door) -> None:
    project = door.project()
    told = problem(door.http.put(f"/projects/{project.id}/status", json={"status": "done"}), 422)
    assert all(each in told for each in ("active", "paused", "archived"))
    assert "archived" in problem(door.http.get("/projects", params={"status": "done"}), 422)
    wanted = {"name": "x", "source": "trello", "sourceProjectKey": "X"}
    assert "asana" in problem(door.http.post("/projects", json=wanted), 422)
    assert "1 to 200" in problem(
        door.http.post("/projects", json=wanted | {"source": "jira", "name": ""}), 400
    )
    assert problem(door.http.get(f"/projects/{uuid4()}"), 404)
    assert "Invalid project id" in problem(door.http.get("/projects/MCU"), 400)


def test_a_list_goes_on_from_its_cursor(door: Door) -> None:
    ids = {door.project(name=f"Project {each}", source_project_key=f"P{each}").id for each in range(3)}
    first = door.got("/projects", limit=2)
    second = door.got("/projects", limit=2, cursor=first["cursor"])
    assert {each["id"] for each in first["items"] + second["items"]} == ids
    assert second["cursor"] is None


# --- artefacts ----------------------------------------------------------------------------------------------


def test_an_artefact_is_put_read_compared_and_undone_by_its_version(door: Door) -> None:
    path = f"/projects/{door.project().id}/artefacts/raid_log"
    first, second = raid_log(risk("R001")), raid_log(risk("R001"), risk("R002", "The key person leaves"))
    made = door.http.put(path, json=first, params={"version": 0})
    assert answer_of(made)["version"] == 1 and made.headers["etag"] == '"1"'
    changed = door.http.put(path, json=second, headers={"if-match": '"1"'})
    assert answer_of(changed)["version"] == 2
    assert answer_of(changed)["canUndo"] is True
    diff = door.got(path + "/diff")
    assert [(each["path"], each["kind"]) for each in diff["differences"]] == [("items[R002]", "added")]
    assert diff["lines"] == ["+ items[R002]: The key person leaves"]
    undone = door.http.post(path + "/undo", headers={"if-match": '"2"'})
    assert answer_of(undone)["version"] == 3 and undone.headers["etag"] == '"3"'
    assert door.got(path)["content"] == first
    assert [each["type"] for each in door.got(path.removesuffix("/raid_log"))] == ["raid_log"]
    unchanged = door.http.get(path, headers={"if-none-match": '"3"'})
    assert (unchanged.status_code, unchanged.content) == (304, b"")


def test_a_stale_version_is_refused_with_what_to_do_and_nothing_is_written(door: Door) -> None:
    path = f"/projects/{door.project().id}/artefacts/raid_log"
    first, second = raid_log(risk("R001")), raid_log(risk("R002"))
    door.http.put(path, json=first, params={"version": 0})
    assert "read it again" in problem(door.http.put(path, json=second, headers={"if-match": '"7"'}), 412)
    assert "read it again" in problem(door.http.put(path, json=second, params={"version": 0}), 409)
    assert "If-Match" in problem(door.http.put(path, json=second), 428)
    assert problem(door.http.put(path, json=second, headers={"if-match": "one"}), 400)
    assert problem(door.http.put(path, json=second, headers={"if-match": '"1"'}, params={"version": 2}), 400)
    assert "read it again" in problem(door.http.post(path + "/undo", headers={"if-match": '"7"'}), 412)
    assert door.got(path)["content"] == first
    assert door.got(path)["version"] == 1


def test_an_undo_with_nothing_to_undo_is_a_conflict(door: Door) -> None:
    path = f"/projects/{door.project().id}/artefacts/raid_log"
    assert "has no raid_log yet" in problem(door.http.post(path + "/undo", params={"version": 0}), 404)
    door.http.put(path, json=raid_log(risk("R001")), params={"version": 0})
    assert "nothing to undo" in problem(door.http.post(path + "/undo", headers={"if-match": '"1"'}), 409)
    assert door.got(path + "/diff")["differences"] == []


def test_an_artefact_that_breaks_its_schema_is_refused_with_the_reason(door: Door) -> None:
    path = f"/projects/{door.project().id}/artefacts/raid_log"
    wrong = raid_log(risk("R001", severity="awful"))
    assert "severity" in problem(door.http.put(path, json=wrong, params={"version": 0}), 400)
    assert problem(door.http.get(path), 404)
    assert problem(door.http.get(path.replace("raid_log", "wish_list")), 422)


def test_an_artefact_is_exported_as_people_need_it(door: Door) -> None:
    path = f"/projects/{door.project().id}/artefacts/raid_log"
    door.http.put(path, json=raid_log(risk("R001")), params={"version": 0})
    page = door.http.get(path + "/export")
    assert page.headers["content-type"] == "text/markdown; charset=utf-8"
    assert "R001" in page.text
    table = door.http.get(path + "/export", params={"format": "csv"})
    assert table.headers["content-type"] == "text/csv; charset=utf-8"
    assert "R001" in table.text.splitlines()[1]
    assert problem(door.http.get(path + "/export", params={"format": "pdf"}), 422)


# --- events -------------------------------------------------------------------------------------------------


@pytest.mark.proves("AP-33")
@pytest.mark.proves("AP-37")
@pytest.mark.proves("AP-38")
def test_events_come_newest_first_with_cursors_and_a_day_has_them_in_full(door: Door) -> None:
    project = door.project()
    for status in ("paused", "active", "archived"):
        door.clock.moment += 60
        asyncio.run(projects.change_status(door.stores, project.id, status))
    path = f"/projects/{project.id}/events"
    first = door.got(path, limit=3)
    rest = door.got(path, limit=3, cursor=first["cursor"])
    mine = [each["id"] for each in first["items"] + rest["items"]]
    assert len(mine) == 4
    assert first["items"][0]["detail"]["after"] == "archived"
    feed = door.got("/events")["items"]
    assert [each["id"] for each in feed] == mine
    assert all(each["detail"] is None for each in feed)
    day = door.got("/events/2026-02-04")["items"]
    assert [each["id"] for each in day] == mine[::-1]
    assert day[-1]["detail"]["after"] == "archived"
    assert door.got("/events/2026-02-05")["items"] == []
    assert problem(door.http.get("/events/yesterday"), 422)


# --- escalations --------------------------------------------------------------------------------------------


@pytest.mark.proves("AP-33")
def test_an_escalation_is_found_decided_once_and_stands_in_the_decision_log(door: Door) -> None:
    project = door.project()
    question: Escalation = asyncio.run(asked(door.stores, project))
    path = f"/projects/{project.id}/escalations/{question.id}"
    assert [each["id"] for each in door.got("/escalations")["items"]] == [question.id]
    assert door.got(path)["agentRecommendation"] == "Delay"
    wrong = {"decision": "Cancel everything", "by": "ada"}
    assert "Delay, Rush" in problem(door.http.post(path + "/decision", json=wrong), 400)
    made = {"decision": "Rush", "notes": "The fair is fixed", "by": "ada"}
    decided = answer_of(door.http.post(path + "/decision", json=made))
    assert (decided["status"], decided["userDecision"]) == ("decided", "Rush")
    log = door.got(f"/projects/{project.id}/artefacts/decision_log")["content"]["decisions"]
    assert [(each["decision"], each["made_by"]) for each in log] == [("Rush", "ada")]
    again = problem(door.http.post(path + "/decision", json=made | {"decision": "Delay"}), 409)
    assert "'Rush' was chosen" in again
    assert door.got("/escalations")["items"] == []
    assert len(door.got("/escalations", status="decided")["items"]) == 1
    assert len(door.got(f"/projects/{project.id}/escalations")) == 1
    assert problem(door.http.get(f"/projects/{project.id}/escalations/{uuid4()}"), 404)
    assert problem(door.http.get("/escalations", params={"status": "open"}), 422)


# --- actions ------------------------------------------------------------------------------------------------


@pytest.mark.proves("AP-40")
def test_what_waits_is_listed_edited_and_approved_with_who_did_it(door: Door) -> None:
    project = door.project()
    action: Action = asyncio.run(held_mail(door.stores, project))
    path = f"/projects/{project.id}/actions/{action.id}"
    [waits] = door.got("/actions/held")["items"]
    assert (waits["id"], waits["heldUntil"]) == (action.id, "2026-02-04T01:30:01.000Z")
    assert "owner" not in waits and "payloadSha256" not in waits
    door.clock.moment += 60
    edited = answer_of(door.http.patch(path, json={"by": "ada", "detail": {"text": "Please hurry."}}))
    assert edited["detail"]["text"] == "Please hurry."
    assert edited["detail"]["because"]["signal"] == "blocked"
    assert edited["heldUntil"] == "2026-02-04T01:30:01.000Z"
    door.clock.moment += 1
    approved = answer_of(door.http.post(path + "/approve", json={"by": "ada"}))
    assert (approved["reviewedBy"], approved["review"]) == ("ada", "approved")
    assert approved["heldUntil"] == "2026-02-04T01:01:02.000Z"
    assert door.got(path) == approved
    told = [each["eventType"] for each in door.got(f"/projects/{project.id}/events")["items"]]
    assert told == ["action_approved", "action_edited", "action_held", "project_changed"]


def test_what_is_cancelled_waits_no_more_and_cannot_be_approved(door: Door) -> None:
    project = door.project()
    action: Action = asyncio.run(held_comment(door.stores, project))
    path = f"/projects/{project.id}/actions/{action.id}"
    door.clock.moment += 1
    cancelled = answer_of(door.http.post(path + "/cancel", json={"by": "bo", "reason": "Was answered"}))
    assert (cancelled["status"], cancelled["review"], cancelled["executed"]) == (
        "cancelled",
        "Was answered",
        False,
    )
    assert door.got("/actions/held")["items"] == []
    assert "was cancelled by bo" in problem(door.http.post(path + "/approve", json={"by": "ada"}), 409)
    assert "was cancelled by bo" in problem(
        door.http.patch(path, json={"by": "ada", "detail": {"text": "x"}}), 409
    )
    events = door.got(f"/projects/{project.id}/events")["items"]
    assert [each["eventType"] for each in events] == ["action_cancelled", "action_held", "project_changed"]
    assert len(door.got(f"/projects/{project.id}/actions")["items"]) == 1


@pytest.mark.parametrize(
    ("detail", "told"),
    [
        ({"kind": "move"}, "Cannot edit kind of this action. Editable: to, subject, text"),
        ({"because": {}}, "Cannot edit because of this action"),
        ({"to": []}, "A mail needs someone to go to"),
        ({"to": "lead@acme.example"}, "to must be a list"),
        ({"to": ["nobody"]}, "to must be a list of mail addresses"),
        ({"subject": ""}, "A mail needs"),
        ({"text": 7}, "A mail needs"),
        ({"subject": "Hello\r\nBcc: everybody@acme.example"}, "subject must be one line"),
        ({}, "Invalid edit: no changes"),
    ],
)
def test_an_edit_into_something_that_cannot_be_sent_is_refused(
    door: Door, detail: dict[str, Any], told: str
) -> None:
    project = door.project()
    action: Action = asyncio.run(held_mail(door.stores, project))
    path = f"/projects/{project.id}/actions/{action.id}"
    assert told in problem(door.http.patch(path, json={"by": "ada", "detail": detail}), 400)
    assert door.got(path)["detail"] == action.detail


@pytest.mark.proves("AP-40")
def test_what_was_refused_is_reopened_with_who_did_it_and_nothing_else_is(door: Door) -> None:
    project = door.project()
    action: Action = asyncio.run(held_mail(door.stores, project))
    path = f"/projects/{project.id}/actions/{action.id}"
    assert problem(door.http.post(path + "/reopen", json={"by": "ada"}), 409)
    door.clock.moment += 1801
    asyncio.run(refused(door.stores, action))
    assert door.got(path)["refused"] == "422"
    assert problem(door.http.post(path + "/reopen", json={"by": " "}), 400)
    assert problem(door.http.post(path + "/reopen", json={}), 422)
    door.clock.moment += 60
    reopened = answer_of(door.http.post(path + "/reopen", json={"by": "ada"}))
    assert (reopened["status"], reopened["refused"], reopened["review"]) == ("held", None, "reopened")
    assert (reopened["reviewedBy"], reopened["heldUntil"]) == ("ada", "2026-02-04T01:31:02.000Z")
    assert [each["id"] for each in door.got("/actions/held")["items"]] == [action.id]
    told = door.got(f"/projects/{project.id}/events")["items"][0]
    assert (told["eventType"], told["detail"]["refused"]) == ("action_reopened", "422")
    assert (told["detail"]["by"], told["detail"]["action"]) == ("ada", action.id)
    assert problem(door.http.post(path + "/reopen", json={"by": "ada"}), 409)


def test_an_action_of_no_project_is_under_global(door: Door) -> None:
    action: Action = asyncio.run(held_mail(door.stores, None))
    assert door.got(f"/projects/global/actions/{action.id}")["projectId"] is None
    assert problem(door.http.get(f"/projects/{door.project().id}/actions/{action.id}"), 404)
    for wrong in ("not-an-id", "7ZZZZZZZZZZZZZZZZZZZZZZZZZ"):
        assert problem(door.http.get(f"/projects/global/actions/{wrong}"), 400)
        assert problem(door.http.get(f"/why/{wrong}"), 400)


# --- settings, integrations, the agent ----------------------------------------------------------------------


@pytest.mark.proves("AP-43")
@pytest.mark.proves("AP-44")
def test_settings_are_listed_set_and_refused(door: Door) -> None:
    asyncio.run(agent_settings.seed(door.stores))
    assert len(door.got("/config")) == 5
    assert door.got("/config/budget_ceiling_daily_usd")["value"] == 0.33
    assert answer_of(door.http.put("/config/hold_queue_minutes", json={"value": 5}))["value"] == 5
    assert door.got("/config/hold_queue_minutes")["value"] == 5
    assert "0 to 10080" in problem(door.http.put("/config/hold_queue_minutes", json={"value": -5}), 400)
    assert "working_hours" in problem(door.http.put("/config/colour", json={"value": "red"}), 400)
    assert problem(door.http.get("/config/colour"), 404)


@pytest.mark.proves("AP-25")
@pytest.mark.proves("AP-42")
def test_an_integration_is_put_checked_over_http_rotated_and_shows_no_secret(door: Door) -> None:
    party = ResendSandbox(api_key=KEY)
    with serve_in_thread(build_resend_app(party)) as url:
        credentials = {"base_url": url, "api_key": KEY, "sender": "agent@acme.example"}
        answers = [door.http.put("/integrations/resend/credentials", json=credentials)]
        answers.append(door.http.post("/integrations/resend/check"))
        assert answers[-1].json()["health"]["is_ok"] is True, answers[-1].text
        wrong = credentials | {"api_key": "re_wrong_" + KEY}
        answers.append(door.http.post("/integrations/resend/rotate", json=wrong))
        answers.append(door.http.post("/integrations/resend/check"))
        assert answers[-1].json()["state"]["status"] == "error"
        answers.append(door.http.post("/integrations/resend/rotate"))
        answers.append(door.http.post("/integrations/resend/deactivate"))
    answers += [door.http.get("/integrations"), door.http.get("/events")]
    assert all(each.status_code == 200 for each in answers)
    refused = door.http.put("/integrations/resend/credentials", json=credentials | {"sender": [KEY]})
    assert "sender" in problem(refused, 400)
    assert not [each for each in (*answers, refused) if KEY in each.text]
    assert door.got("/integrations/resend")["status"] == "inactive"
    assert door.got("/integrations/jira")["is_configured"] is False
    assert problem(door.http.post("/integrations/jira/check"), 404)
    assert problem(door.http.put("/integrations/trello/credentials", json={}), 422)


def test_the_agent_is_dead_after_three_intervals_of_working_hours_and_not_after_a_night(door: Door) -> None:
    assert door.got("/agent")["liveness"] == "idle"
    project = door.project()
    beat = patterns._example_checkpoint().model_copy(
        update={"project_id": project.id, "integration": "agent", "checkpoint_key": "last_cycle"}
    )
    asyncio.run(door.stores.run(patterns.put_checkpoint(beat, None)))  # at noon
    door.clock.moment = NOON.timestamp() + 45 * 60
    state = door.got("/agent")
    assert (state["liveness"], state["heartbeat_age_s"]) == ("alive", 2700)
    assert (state["spent_usd"], state["ceiling_usd"], state["loop"]) == (0, 0.33, None)
    door.clock.moment += 60
    state = door.got("/agent")
    assert state["liveness"] == "dead" and "holdfast run agenticpm" in state["says"]
    assert [each["is_late"] for each in state["cycles"]] == [True]


def test_after_a_night_the_agent_has_three_intervals_to_come_back(door: Door) -> None:
    project = door.project()
    evening = NOON.timestamp() + 6 * 3600 - 60  # a minute before six, in Sydney
    door.clock.moment = evening
    beat = patterns._example_checkpoint().model_copy(
        update={"project_id": project.id, "integration": "agent", "checkpoint_key": "last_cycle"}
    )
    door.clock.moment += 3600
    assert door.got("/agent")["liveness"] == "resting"
    morning = evening + 60 + 14 * 3600  # eight
    at = {"updated_at": beat.updated_at.fromtimestamp(evening, beat.updated_at.tzinfo)}
    asyncio.run(door.stores.run(patterns.put_checkpoint(beat.model_copy(update=at), None)))
    door.clock.moment = morning + 44 * 60
    assert door.got("/agent")["liveness"] == "alive"
    door.clock.moment = morning + 46 * 60
    assert door.got("/agent")["liveness"] == "dead"


def test_who_runs_the_loop_is_told_while_they_do(door: Door) -> None:
    async def taken() -> int:
        return (await patterns.LEASE.take(door.stores, patterns.LOOP)).token

    token = asyncio.run(taken())
    assert door.got("/agent")["loop"]["token"] == token
    door.clock.moment += patterns.LEASE_S
    assert door.got("/agent")["loop"] is None


def test_why_tells_what_led_to_an_action(door: Door) -> None:
    project = door.project()
    action: Action = asyncio.run(held_comment(door.stores, project))
    told = door.got(f"/why/{project.id}/{action.id}")
    assert told == door.got(f"/why/{action.id}")
    assert any("In Progress → Blocked" in each for each in told["lines"])
    assert problem(door.http.get("/why/nothing"), 400)


def test_all_that_is_offered_is_described(door: Door) -> None:
    described = door.got("/openapi.json")["paths"]
    assert {
        "/projects/{project_id}/artefacts/{type}/undo",
        "/projects/{project_id}/escalations/{id}/decision",
        "/projects/{project_id}/actions/{id}/approve",
        "/projects/{project_id}/actions/{id}/reopen",
        "/integrations/{integration}/check",
        "/agent",
    } <= set(described)
