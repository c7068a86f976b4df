"""Laws of reading Asana: any edits and readings end with what is there, and an answer that makes no sense is named."""

from __future__ import annotations

import asyncio
import copy
import itertools
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agenticpm.demo.sandbox.asana import AsanaSandbox, build_asana_app
from agenticpm.domain.tickets import Snapshot, Stage, apply_page
from agenticpm.integrations.asana.task_parser import (
    NamedResource,
    Task,
    build_changes,
    build_ticket,
    parse_stage,
)
from agenticpm.integrations.asana.tracker import AsanaTracker
from holdfast.core.errors import ExternalServiceFailed

# Where a stand-in is that is asked without a socket between.
HERE = "http://127.0.0.1"
PROJECT = "1200"
SECTIONS = ["To do", "In progress", "Blocked", "Done"]
NOTHING = Snapshot(source="asana", project_key=PROJECT)
NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)


# --- any edits and readings ---------------------------------------------------------------------------------

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


def edited(sandbox: AsanaSandbox, what: str, number: int) -> None:
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


async def read(steps: list[tuple[str, int]], sandbox: AsanaSandbox) -> Snapshot:
    snapshot, checkpoint = NOTHING, None
    transport = httpx2.ASGITransport(app=build_asana_app(sandbox))
    async with httpx2.AsyncClient(base_url=HERE, transport=transport) as http:
        for what, number in [*steps, ("sync", 2), ("sync", 1)]:
            if what not in ("page", "crash", "sync"):
                edited(sandbox, what, number)
                continue
            tracker = AsanaTracker(http, page_size=number)
            while True:
                page = await tracker.fetch_changes(PROJECT, checkpoint)
                if what == "crash":
                    break  # It was read, and nothing of it was kept.
                snapshot, checkpoint = apply_page(snapshot, page, None, NOW), page.checkpoint
                if what == "page" or not page.has_more:
                    break
    return snapshot


@settings(max_examples=100, deadline=None)
@given(steps=st.lists(STEP, max_size=25), events_max=st.integers(1, 4))
def test_any_edits_and_readings_end_with_the_tasks_that_are_there(
    steps: list[tuple[str, int]], events_max: int
) -> None:
    sandbox = AsanaSandbox(with_sample=False, max_events=events_max)
    sandbox.data.seed({"project": PROJECT, "name": "P", "sections": SECTIONS})
    snapshot = asyncio.run(read(steps, sandbox))
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
        ("To do", Stage.to_do),
        ("Not started", Stage.to_do),
        ("Backlog", Stage.to_do),
        ("Ideas", Stage.to_do),
        ("Undone", Stage.to_do),
        ("Doing", Stage.in_progress),
        ("In Progress 🚧", Stage.in_progress),
        ("Blocked", Stage.in_progress),
        ("Code review", Stage.in_progress),
        ("DONE ✅", Stage.done),
        ("Completed", Stage.done),
    ],
)
def test_the_name_of_a_section_says_where_it_stands(section: str, stage: Stage) -> None:
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
def test_a_task_is_blocked_by_a_field_or_a_tag_while_it_is_not_done(values: Any, reason: str | None) -> None:
    task = Task.model_validate(TASK | values)
    ticket = build_ticket(task, NamedResource(gid="2", name="In progress"), [])
    assert (ticket.blocked_reason, ticket.is_blocked) == (reason, reason is not None)


def test_a_link_that_is_no_https_is_left_out_and_a_due_time_counts_before_a_due_day() -> None:
    task = Task.model_validate(
        TASK | {"permalink_url": "javascript:x", "due_on": "2026-03-05", "due_at": "2026-03-05T08:00:00Z"}
    )
    ticket = build_ticket(task, NamedResource(gid="2"), [])
    assert (ticket.url, ticket.due_at) == (None, datetime(2026, 3, 5, 8, tzinfo=UTC))
    assert build_changes("1", [], NOW) == []


# --- nonsense -----------------------------------------------------------------------------------------------

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


def answered(where: str, answer: tuple[int, Any], checkpoint: str | None) -> Any:
    """What the tracker makes of a party that answers as it should, but for one place."""
    answers = copy.deepcopy(ANSWERS) | {where: answer}

    async def respond(request: Request) -> Response:
        asked = request.path_params["rest"] + ("?sync" if "sync" in request.query_params else "")
        status, body = answers[asked]
        content = body if isinstance(body, str) else json.dumps(body)
        return Response(content, status_code=status, media_type="application/json")

    async def run() -> Any:
        transport = httpx2.ASGITransport(app=Starlette(routes=[Route("/api/1.0/{rest:path}", respond)]))
        async with httpx2.AsyncClient(base_url=HERE, transport=transport) as http:
            return await AsanaTracker(http).fetch_changes(PROJECT, checkpoint)

    return asyncio.run(run())


LIST = f"projects/{PROJECT}/tasks"
NONSENSE: list[tuple[str, tuple[int, Any], str | None, str]] = [
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


@pytest.mark.parametrize(("where", "answer", "checkpoint", "said"), NONSENSE)
def test_an_answer_that_makes_no_sense_is_named(
    where: str, answer: tuple[int, Any], checkpoint: str | None, said: str
) -> None:
    with pytest.raises(ExternalServiceFailed) as failed:
        answered(where, answer, checkpoint)
    assert said in failed.value.message
    assert not failed.value.may_be_done


@pytest.mark.parametrize("name", ["notes", "resource_subtype", "tags", "custom_fields", "assignee", "due_on"])
def test_null_where_a_task_may_have_nothing_is_nothing(name: str) -> None:
    (ticket,) = answered(LIST, (200, {"data": [TASK | {name: None}]}), None).tickets
    assert ticket == answered(LIST, ANSWERS[LIST], None).tickets[0]


def test_a_task_that_cannot_be_read_is_named_so_that_a_person_can_find_it() -> None:
    tasks = [TASK, TASK | {"gid": "120077", "completed": "yes"}]
    with pytest.raises(ExternalServiceFailed, match=r"data\.1\.completed: .* \(of 120077\)"):
        answered(LIST, (200, {"data": tasks}), None)


# --- what has no end ----------------------------------------------------------------------------------------


def read_on(answer: Callable[[httpx2.Request], httpx2.Response], pages: int) -> tuple[str, int]:
    """Reads on while there is more; what it failed with, and after how many requests."""
    asked = 0

    def counted(request: httpx2.Request) -> httpx2.Response:
        nonlocal asked
        asked += 1
        return answer(request)

    async def run() -> str:
        async with httpx2.AsyncClient(base_url=HERE, transport=httpx2.MockTransport(counted)) as http:
            tracker, checkpoint = AsanaTracker(http), None
            for _ in range(pages):
                try:
                    page = await tracker.fetch_changes(PROJECT, checkpoint)
                except ExternalServiceFailed as failed:
                    return failed.message
                checkpoint = page.checkpoint
        return "no end"

    return asyncio.run(run()), asked


@pytest.mark.parametrize(("tasks", "why"), [([TASK], "rejects every offset"), ([], "rejects the offset")])
def test_offsets_that_are_always_forgotten_end_as_nonsense(tasks: list[Any], why: str) -> None:
    tokens = itertools.count()

    def answer(request: httpx2.Request) -> httpx2.Response:
        if request.url.path.endswith("/events"):
            return httpx2.Response(412, json={"sync": f"t{next(tokens)}"})
        if request.url.path.endswith("/stories"):
            return httpx2.Response(200, json={"data": []})
        if "offset" in request.url.params:
            return httpx2.Response(400, json={"errors": [{"message": "offset: has expired"}]})
        return httpx2.Response(200, json={"data": tasks, "next_page": {"offset": "o"}})

    said, asked = read_on(answer, 100)
    assert why in said
    assert asked < 30


@pytest.mark.parametrize("event", [None, EVENT | {"resource": None}])
def test_events_that_tell_of_more_and_never_of_a_task_end_as_nonsense(event: Any) -> None:
    tokens = itertools.count()

    def answer(request: httpx2.Request) -> httpx2.Response:
        if request.url.path.endswith("/events"):
            told = {"data": [event] if event else [], "sync": f"t{next(tokens)}", "has_more": True}
            return httpx2.Response(200, json=told)
        return httpx2.Response(200, json={"data": []})

    said, asked = read_on(answer, 100)
    assert "but are empty" in said
    assert asked < 40


def test_a_list_of_nothing_that_has_more_ends_as_nonsense() -> None:
    offsets = itertools.count()

    def answer(request: httpx2.Request) -> httpx2.Response:
        if request.url.path.endswith("/events"):
            return httpx2.Response(412, json={"sync": "t"})
        return httpx2.Response(200, json={"data": [], "next_page": {"offset": f"o{next(offsets)}"}})

    said, asked = read_on(answer, 100)
    assert "but are empty" in said
    assert asked < 40


def test_a_few_pages_of_events_about_nothing_are_passed_over() -> None:
    def answer(request: httpx2.Request) -> httpx2.Response:
        place = int(request.url.params.get("sync", "0"))
        if request.url.path.endswith("/events"):
            told = {"data": [EVENT] if place == 5 else [], "sync": str(place + 1), "has_more": place < 5}
            return httpx2.Response(200, json=told)
        return httpx2.Response(200, json=ANSWERS[request.url.path.removeprefix("/api/1.0/")][1])

    async def run() -> Any:
        async with httpx2.AsyncClient(base_url=HERE, transport=httpx2.MockTransport(answer)) as http:
            return await AsanaTracker(http).fetch_changes(
                PROJECT, json.dumps({"project": PROJECT, "sync": "1"})
            )

    page = asyncio.run(run())
    assert ([each.key for each in page.tickets], page.has_more) == (["1"], False)
    assert json.loads(page.checkpoint)["sync"] == "6"


@pytest.mark.parametrize("checkpoint", [None, WITH_TOKEN])
def test_the_answers_that_the_nonsense_is_made_of_make_sense(checkpoint: str | None) -> None:
    page = answered("events", ANSWERS["events"], checkpoint)
    assert [each.key for each in page.tickets] == ["1"]
    assert page.tickets[0].started_at == datetime(2026, 3, 1, 11, tzinfo=UTC)


@pytest.mark.parametrize("status", [403, 404])
def test_a_task_that_we_may_no_longer_see_is_gone(status: int) -> None:
    assert answered("tasks/1", (status, {"errors": []}), WITH_TOKEN).gone == ("1",)


def test_an_event_without_a_resource_is_about_nothing() -> None:
    page = answered("events?sync", (200, {"sync": "s", "data": [EVENT | {"resource": None}]}), WITH_TOKEN)
    assert (page.tickets, page.gone) == ((), ())
