"""Tests of Asana reads without a socket: parsing, convergence with the sandbox's tasks, invalid responses."""

from __future__ import annotations

import copy
import itertools
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agenticpm.domain.tickets import Snapshot, TicketStage, apply_page
from agenticpm.integrations.asana import tracker
from agenticpm.integrations.asana.task_parser import (
    NamedResource,
    Task,
    build_changes,
    build_ticket,
    parse_stage,
)
from agenticpm.integrations.asana.tracker import AsanaTracker
from holdfast.core.errors import ExternalServiceFailed
from holdfast_demo.agenticpm.sandbox.asana import AsanaSandbox, build_asana_app

# Address of a sandbox that is called without a socket.
HERE = "http://127.0.0.1"
PROJECT = "1200"
SECTIONS = ["To do", "In progress", "Blocked", "Done"]
NOTHING = Snapshot(source="asana", project_key=PROJECT)
NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)


STEP = st.one_of(
    st.tuples(st.just("create"), st.integers(0, 3)),
    st.tuples(st.just("section"), st.integers(0, 30)),
    st.tuples(st.just("points"), st.integers(0, 30)),
    st.tuples(st.just("delete"), st.integers(0, 9)),
    st.tuples(st.just("leave"), st.integers(0, 9)),
    st.tuples(st.just("rename"), st.integers(0, 3)),
    st.tuples(st.just("page"), st.integers(1, 3)),
    st.tuples(st.just("crash"), st.integers(1, 3)),
    st.tuples(st.just("sync"), st.integers(1, 3)),
    st.tuples(st.just("expire"), st.just(0)),
)


def apply_edit(sandbox: AsanaSandbox, what: str, number: int) -> None:
    """Make one random edit in the sandbox, chosen by its kind and a number."""
    data = sandbox.data
    gids = [gid for gid, task in data.tasks.items() if task["project"]]
    if what == "create":
        data.create(
            PROJECT, name=f"Task {len(data.tasks)}", section=data.projects[PROJECT]["sections"][number]["gid"]
        )
    elif what == "rename":
        name = data.projects[PROJECT]["sections"][number]["name"]
        data.rename_section(PROJECT, name, f"{name}.")
    elif what == "expire":
        sandbox.expire()
    elif gids:
        gid = gids[number % len(gids)]
        if what == "section":
            data.edit(gid, {"section": data.projects[PROJECT]["sections"][number % 4]["gid"]})
        elif what == "points":
            data.edit(gid, {"Story points": number})
        elif what == "delete":
            data.delete(gid)
        elif what == "leave":
            data.edit(gid, {"project": None})


async def run_steps(steps: list[tuple[str, int]], sandbox: AsanaSandbox) -> Snapshot:
    """Run edits and reads (complete, one page, or lost in a crash) and return the final snapshot."""
    snapshot, checkpoint = NOTHING, None
    transport = httpx2.ASGITransport(app=build_asana_app(sandbox))
    async with httpx2.AsyncClient(base_url=HERE, transport=transport) as http:
        for what, number in [*steps, ("sync", 2), ("sync", 1)]:
            if what not in ("page", "crash", "sync"):
                apply_edit(sandbox, what, number)
                continue
            tracker = AsanaTracker(http, page_size=number)
            while True:
                page = await tracker.fetch_changes(PROJECT, checkpoint)
                if what == "crash":
                    break  # Read, but not stored.
                snapshot, checkpoint = apply_page(snapshot, page, None, NOW), page.checkpoint
                if what == "page" or not page.has_more:
                    break
    return snapshot


@given(steps=st.lists(STEP, max_size=25), events_max=st.integers(1, 4))
async def test_any_edits_and_reads_end_with_the_current_tasks(
    steps: list[tuple[str, int]], events_max: int
) -> None:
    sandbox = AsanaSandbox(with_sample=False, max_events=events_max)
    sandbox.data.seed({"project": PROJECT, "name": "P", "sections": SECTIONS})
    snapshot = await run_steps(steps, sandbox)
    shown = [sandbox.data.to_api_task(each) for each in sandbox.data.tasks.values() if each["project"]]
    assert {key: (each.title, each.status, each.points) for key, each in snapshot.tickets.items()} == {
        each["gid"]: (
            each["name"],
            each["memberships"][0]["section"]["name"],
            next(field["number_value"] for field in each["custom_fields"] if field["name"] == "Story points"),
        )
        for each in shown
    }


# --- sections, blocks and times -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("section", "stage"),
    [
        ("To do", TicketStage.to_do),
        ("Not started", TicketStage.to_do),
        ("Backlog", TicketStage.to_do),
        ("Ideas", TicketStage.to_do),
        ("Undone", TicketStage.to_do),
        ("Doing", TicketStage.in_progress),
        ("In Progress 🚧", TicketStage.in_progress),
        ("Blocked", TicketStage.in_progress),
        ("Code review", TicketStage.in_progress),
        ("DONE ✅", TicketStage.done),
        ("Completed", TicketStage.done),
    ],
)
def test_section_name_decides_the_stage(section: str, stage: TicketStage) -> None:
    assert parse_stage(section) is stage


TASK: dict[str, Any] = {
    "gid": "1",
    "name": "A",
    "notes": "",
    "resource_subtype": "default_task",
    "completed": False,
    "completed_at": None,
    "created_at": "2026-03-01T10:00:00.000Z",
    "modified_at": "2026-03-01T10:00:00.000Z",
    "due_on": None,
    "due_at": None,
    "assignee": None,
    "tags": [],
    "permalink_url": "https://app.asana.com/0/1200/1",
    "memberships": [{"project": {"gid": PROJECT}, "section": {"gid": "2", "name": "In progress"}}],
    "custom_fields": [],
}


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({}, None),
        ({"custom_fields": [{"name": "Blocked", "display_value": "No"}]}, None),
        ({"custom_fields": [{"name": "Blocked", "display_value": "Yes"}]}, "Marked as blocked: Yes"),
        ({"tags": [{"gid": "9", "name": "blocked"}]}, "Tagged blocked"),
        ({"custom_fields": [{"name": "Flagged", "display_value": "Impediment"}], "completed": True}, None),
    ],
)
def test_task_is_blocked_by_a_field_or_a_tag_until_it_is_done(values: Any, reason: str | None) -> None:
    task = Task.model_validate(TASK | values)
    ticket = build_ticket(task, NamedResource(gid="2", name="In progress"), [])
    assert (ticket.blocked_reason, ticket.is_blocked) == (reason, reason is not None)


def test_drops_links_without_https_and_prefers_a_due_time_to_a_due_day() -> None:
    task = Task.model_validate(
        TASK | {"permalink_url": "javascript:x", "due_on": "2026-03-05", "due_at": "2026-03-05T08:00:00Z"}
    )
    ticket = build_ticket(task, NamedResource(gid="2"), [])
    assert (ticket.url, ticket.due_at) == (None, datetime(2026, 3, 5, 8, tzinfo=UTC))
    assert build_changes("1", [], NOW) == []


# --- invalid responses --------------------------------------------------------------------------------------

STORY = {
    "gid": "5",
    "type": "system",
    "resource_subtype": "section_changed",
    "created_at": "2026-03-01T11:00:00.000Z",
    "created_by": {"gid": "7", "name": "Ines"},
    "new_section": {"gid": "2", "name": "In progress"},
}
EVENT = {
    "action": "changed",
    "resource": {"gid": "1", "resource_type": "task"},
    "created_at": "2026-03-01T11:00:00Z",
}
ANSWERS: dict[str, tuple[int, Any]] = {
    "events": (412, {"sync": "s-1", "errors": [{"message": "Sync token invalid or too old"}]}),
    "events?sync": (200, {"sync": "s-2", "data": [EVENT], "has_more": False}),
    f"projects/{PROJECT}/tasks": (200, {"data": [TASK], "next_page": None}),
    "tasks/1": (200, {"data": TASK}),
    "tasks/1/stories": (200, {"data": [STORY], "next_page": None}),
}
WITH_TOKEN = json.dumps({"project": PROJECT, "sync": "s-1"})


async def read_with_response(where: str, answer: tuple[int, Any], checkpoint: str | None) -> Any:
    """Read one page from a service whose responses are valid, except for this one at the path `where`."""
    answers = copy.deepcopy(ANSWERS) | {where: answer}

    async def respond(request: Request) -> Response:
        path = request.path_params["rest"] + ("?sync" if "sync" in request.query_params else "")
        status, body = answers[path]
        content = body if isinstance(body, str) else json.dumps(body)
        return Response(content, status_code=status, media_type="application/json")

    transport = httpx2.ASGITransport(app=Starlette(routes=[Route("/api/1.0/{rest:path}", respond)]))
    async with httpx2.AsyncClient(base_url=HERE, transport=transport) as http:
        with patch.object(tracker, "MAX_PAGES", 5):
            return await AsanaTracker(http).fetch_changes(PROJECT, checkpoint)


LIST = f"projects/{PROJECT}/tasks"
INVALID: list[tuple[str, tuple[int, Any], str | None, str]] = [
    ("events", (200, "<html>welcome</html>"), None, "not JSON"),
    ("events", (412, "<html>"), None, "the response: "),
    ("events", (412, {"errors": []}), None, "sync: Field required"),
    ("events", (412, {"sync": 7}), None, "sync: "),
    ("events", (200, {"sync": "s"}), None, "data: Field required"),
    ("events?sync", (200, {"sync": "s", "data": {}}), WITH_TOKEN, "data: "),
    ("events?sync", (200, {"sync": "s", "data": [7]}), WITH_TOKEN, "data.0: "),
    ("events?sync", (200, {"sync": "s", "data": [], "has_more": "no"}), WITH_TOKEN, "has_more: "),
    ("events?sync", (200, {"sync": "s", "data": [{"action": "changed"}]}), WITH_TOKEN, "data.0.created_at: "),
    (
        "events?sync",
        (200, {"sync": "s", "data": [EVENT | {"resource": "1"}]}),
        WITH_TOKEN,
        "data.0.resource: ",
    ),
    (
        "events?sync",
        (200, {"sync": "s", "data": [EVENT | {"created_at": 7}]}),
        WITH_TOKEN,
        "data.0.created_at: ",
    ),
    (LIST, (200, "[]"), None, "the response: "),
    (LIST, (200, {}), None, "data: Field required"),
    (LIST, (200, {"data": None}), None, "data: "),
    (LIST, (200, {"data": [], "next_page": {"offset": 7}}), None, "next_page.offset: "),
    (LIST, (200, {"data": [TASK | {"gid": 1}]}), None, "data.0.gid: "),
    (LIST, (200, {"data": [TASK | {"name": None}]}), None, "data.0.name: "),
    (LIST, (200, {"data": [TASK | {"completed": "yes"}]}), None, "data.0.completed: "),
    (LIST, (200, {"data": [TASK | {"created_at": "2026-03-01T10:00:00"}]}), None, "data.0.created_at: "),
    (LIST, (200, {"data": [TASK | {"due_on": "soon"}]}), None, "data.0.due_on: "),
    (LIST, (200, {"data": [TASK | {"memberships": None}]}), None, "data.0.memberships: "),
    (LIST, (200, {"data": [TASK | {"tags": ["x"]}]}), None, "data.0.tags.0: "),
    (LIST, (200, {"data": [TASK | {"custom_fields": [{"number_value": "x"}]}]}), None, "number_value: "),
    (LIST, (200, '{"data": [], "next_page": NaN}'), None, "not JSON"),
    ("tasks/1", (200, {"data": {}}), WITH_TOKEN, "data.name: Field required"),
    ("tasks/1", (200, {"data": [TASK]}), WITH_TOKEN, "data: "),
    ("tasks/1/stories", (200, {"data": [STORY | {"type": "rumour"}]}), WITH_TOKEN, "data.0.type: "),
    ("tasks/1/stories", (200, {"data": [STORY | {"created_at": None}]}), WITH_TOKEN, "data.0.created_at: "),
    ("tasks/1/stories", (200, {"data": [], "next_page": {"offset": "again"}}), WITH_TOKEN, "has no end"),
    ("tasks/1/stories", (401, {"errors": []}), WITH_TOKEN, "credentials"),
    ("events?sync", (500, "<html>"), WITH_TOKEN, "failed with 500"),
]


@pytest.mark.parametrize(("where", "answer", "checkpoint", "message"), INVALID)
async def test_invalid_response_fails_with_the_name_of_the_field(
    where: str, answer: tuple[int, Any], checkpoint: str | None, message: str
) -> None:
    with pytest.raises(ExternalServiceFailed) as failed:
        await read_with_response(where, answer, checkpoint)
    assert message in failed.value.message
    assert not failed.value.may_be_done


@pytest.mark.parametrize("name", ["notes", "resource_subtype", "tags", "custom_fields", "assignee", "due_on"])
async def test_accepts_null_for_optional_task_fields(name: str) -> None:
    (ticket,) = (await read_with_response(LIST, (200, {"data": [TASK | {name: None}]}), None)).tickets
    assert ticket == (await read_with_response(LIST, ANSWERS[LIST], None)).tickets[0]


async def test_error_contains_the_gid_of_the_invalid_task() -> None:
    tasks = [TASK, TASK | {"gid": "120077", "completed": "yes"}]
    with pytest.raises(ExternalServiceFailed, match=r"data\.1\.completed: .* \(of 120077\)"):
        await read_with_response(LIST, (200, {"data": tasks}), None)


# --- endless responses --------------------------------------------------------------------------------------


async def read_until_failure(
    answer: Callable[[httpx2.Request], httpx2.Response], pages: int
) -> tuple[str, int]:
    """Read up to this many pages. Return the error, or "no end", and the number of requests."""
    requests = 0

    def counted(request: httpx2.Request) -> httpx2.Response:
        nonlocal requests
        requests += 1
        return answer(request)

    async with httpx2.AsyncClient(base_url=HERE, transport=httpx2.MockTransport(counted)) as http:
        tracker, checkpoint = AsanaTracker(http), None
        for _ in range(pages):
            try:
                page = await tracker.fetch_changes(PROJECT, checkpoint)
            except ExternalServiceFailed as failed:
                return failed.message, requests
            checkpoint = page.checkpoint
    return "no end", requests


@pytest.mark.parametrize(("tasks", "why"), [([TASK], "rejects every offset"), ([], "rejects the offset")])
async def test_gives_up_if_asana_rejects_every_offset(tasks: list[Any], why: str) -> None:
    tokens = itertools.count()

    def answer(request: httpx2.Request) -> httpx2.Response:
        if request.url.path.endswith("/events"):
            return httpx2.Response(412, json={"sync": f"t{next(tokens)}"})
        if request.url.path.endswith("/stories"):
            return httpx2.Response(200, json={"data": []})
        if "offset" in request.url.params:
            return httpx2.Response(400, json={"errors": [{"message": "offset: has expired"}]})
        return httpx2.Response(200, json={"data": tasks, "next_page": {"offset": "o"}})

    error, requests = await read_until_failure(answer, 100)
    assert why in error
    assert requests < 30


@pytest.mark.parametrize("event", [None, EVENT | {"resource": None}])
async def test_gives_up_after_many_event_pages_without_a_task(event: Any) -> None:
    tokens = itertools.count()

    def answer(request: httpx2.Request) -> httpx2.Response:
        if request.url.path.endswith("/events"):
            body = {"data": [event] if event else [], "sync": f"t{next(tokens)}", "has_more": True}
            return httpx2.Response(200, json=body)
        return httpx2.Response(200, json={"data": []})

    error, requests = await read_until_failure(answer, 100)
    assert "but are empty" in error
    assert requests < 40


async def test_gives_up_after_many_empty_task_pages() -> None:
    offsets = itertools.count()

    def answer(request: httpx2.Request) -> httpx2.Response:
        if request.url.path.endswith("/events"):
            return httpx2.Response(412, json={"sync": "t"})
        return httpx2.Response(200, json={"data": [], "next_page": {"offset": f"o{next(offsets)}"}})

    error, requests = await read_until_failure(answer, 100)
    assert "but are empty" in error
    assert requests < 40


async def test_skips_a_few_pages_of_irrelevant_events() -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        place = int(request.url.params.get("sync", "0"))
        if request.url.path.endswith("/events"):
            body = {"data": [EVENT] if place == 5 else [], "sync": str(place + 1), "has_more": place < 5}
            return httpx2.Response(200, json=body)
        return httpx2.Response(200, json=ANSWERS[request.url.path.removeprefix("/api/1.0/")][1])

    async with httpx2.AsyncClient(base_url=HERE, transport=httpx2.MockTransport(answer)) as http:
        checkpoint = json.dumps({"project": PROJECT, "sync": "1"})
        page = await AsanaTracker(http).fetch_changes(PROJECT, checkpoint)
    assert ([each.key for each in page.tickets], page.has_more) == (["1"], False)
    assert json.loads(page.checkpoint)["sync"] == "6"


@pytest.mark.parametrize("checkpoint", [None, WITH_TOKEN])
async def test_unmodified_responses_are_valid(checkpoint: str | None) -> None:
    page = await read_with_response("events", ANSWERS["events"], checkpoint)
    assert [each.key for each in page.tickets] == ["1"]
    assert page.tickets[0].started_at == datetime(2026, 3, 1, 11, tzinfo=UTC)


@pytest.mark.parametrize("status", [403, 404])
async def test_deleted_or_hidden_task_is_gone(status: int) -> None:
    assert (await read_with_response("tasks/1", (status, {"errors": []}), WITH_TOKEN)).gone == ("1",)


async def test_ignores_an_event_without_a_resource() -> None:
    page = await read_with_response(
        "events?sync", (200, {"sync": "s", "data": [EVENT | {"resource": None}]}), WITH_TOKEN
    )
    assert (page.tickets, page.gone) == ((), ())
