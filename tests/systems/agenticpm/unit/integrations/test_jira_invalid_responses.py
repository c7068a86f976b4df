"""Tests of the Jira tracker with invalid responses: each raises a Holdfast error that names the problem."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import cache
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenticpm.integrations.jira import tracker
from agenticpm.integrations.jira.tracker import JiraTracker
from holdfast.core.errors import ExternalServiceFailed, NotFound, RequestRefused
from holdfast_demo.agenticpm.sandbox.jira import build_jira_app
from tests.systems.agenticpm.unit.integrations.jira_client import EMAIL, TOKEN, make_sandbox

Ask = Callable[[JiraTracker], Awaitable[Any]]
CHANGES: Ask = lambda tracker: tracker.fetch_changes("MCU", None)  # noqa: E731
PLAN: Ask = lambda tracker: tracker.fetch_plan("MCU")  # noqa: E731
COMMENT: Ask = lambda tracker: tracker.comment("MCU-142", "Hello", "c")  # noqa: E731
FIND_COMMENT: Ask = lambda tracker: tracker.find_comment("MCU-142", "c")  # noqa: E731
MOVE: Ask = lambda tracker: tracker.move("MCU-142", "Done", "m")  # noqa: E731


def make_issue(**fields: Any) -> dict[str, Any]:
    """Build a valid issue, except for the fields given."""
    fine = {
        "summary": "A",
        "status": {"id": "10000", "name": "To Do", "statusCategory": {"key": "new"}},
        "created": "2026-02-04T10:30:00.000+1100",
        "updated": "2026-02-04T10:30:00.000+1100",
    }
    return {"id": "1", "key": "MCU-1", "fields": {**fine, **fields}}


def make_search_result(*issues: Any) -> dict[str, Any]:
    return {"issues": list(issues), "isLast": True}


@cache
def build_sample_app() -> Any:
    """Build the sandbox once: no request of these tests changes it."""
    return build_jira_app(make_sandbox())


async def call_with_response(path: str, body: bytes, ask: Ask) -> Any:
    """Call the tracker against the sandbox in process, with this response at paths with this ending."""

    async def respond(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"].endswith(path):
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": body})
        else:
            await build_sample_app()(scope, receive, send)

    transport = httpx2.ASGITransport(respond)
    url = "http://jira.example.com"
    async with httpx2.AsyncClient(transport=transport, base_url=url, auth=(EMAIL, TOKEN)) as http:
        return await ask(JiraTracker(http))


@pytest.mark.parametrize(
    ("path", "body", "ask", "named"),
    [
        ("/myself", {}, CHANGES, "timeZone"),
        ("/myself", {"timeZone": "Mars/Olympus"}, CHANGES, "Mars/Olympus"),
        ("/myself", {"timeZone": "../../etc/passwd"}, CHANGES, "unknown time zone"),
        ("/field", {"values": []}, CHANGES, "fields"),
        ("/field", [{"id": 7, "name": "Sprint"}], CHANGES, "id"),
        ("/status", [{"id": "1", "name": "To Do"}], CHANGES, "statusCategory"),
        ("/search/jql", [], CHANGES, "issues"),
        ("/search/jql", {"issues": {}}, CHANGES, "issues"),
        ("/search/jql", {"issues": [7]}, CHANGES, "issues"),
        ("/search/jql", {"issues": [], "nextPageToken": 7}, CHANGES, "nextPageToken"),
        ("/search/jql", {"issues": [], "nextPageToken": "x"}, CHANGES, "no end"),
        ("/search/jql", make_search_result({"id": "1"}), CHANGES, "fields"),
        ("/search/jql", make_search_result({**make_issue(), "key": None}), CHANGES, "key"),
        ("/search/jql", make_search_result({**make_issue(), "id": 1}), CHANGES, "id"),
        ("/search/jql", make_search_result(make_issue(summary=None)), CHANGES, "summary"),
        ("/search/jql", make_search_result(make_issue(status="To Do")), CHANGES, "status"),
        (
            "/search/jql",
            make_search_result(make_issue(status={"name": "X", "statusCategory": {"key": "x"}})),
            CHANGES,
            "category",
        ),
        ("/search/jql", make_search_result(make_issue(updated="yesterday")), CHANGES, "updated"),
        ("/search/jql", make_search_result(make_issue(updated="2026-02-04T10:30:00")), CHANGES, "updated"),
        (
            "/search/jql",
            make_search_result(make_issue(updated="0001-01-01T00:00:00+0000")),
            CHANGES,
            "updated",
        ),
        ("/search/jql", make_search_result(make_issue(created=10**30)), CHANGES, "created"),
        ("/search/jql", make_search_result(make_issue(duedate="31/12/2026")), CHANGES, "duedate"),
        (
            "/search/jql",
            make_search_result(make_issue(customfield_10016="many")),
            CHANGES,
            "customfield_10016",
        ),
        ("/search/jql", make_search_result(make_issue(customfield_10016=True)), CHANGES, "customfield_10016"),
        ("/search/jql", make_search_result(make_issue(customfield_10020=[7])), CHANGES, "sprint"),
        ("/changelog/bulkfetch", {}, CHANGES, "issueChangeLogs"),
        ("/changelog/bulkfetch", {"issueChangeLogs": [{"issueId": "1"}]}, CHANGES, "changeHistories"),
        ("/board", {"isLast": True, "values": [{"id": "one"}]}, PLAN, "id"),
        ("/sprint", {"isLast": True, "values": [{"id": 1, "name": 2}]}, PLAN, "name"),
        ("/sprint", {"isLast": True, "values": [{"name": "S", "state": "active"}]}, PLAN, "sprint"),
        ("/version", {"isLast": True, "values": [{"name": "A", "releaseDate": "soon"}]}, PLAN, "releaseDate"),
        ("/comment", {}, COMMENT, "id"),
        ("/comment", {"comments": 7}, FIND_COMMENT, "comments"),
        ("/transitions", {"transitions": [{"id": "1"}]}, MOVE, "to"),
    ],
)
async def test_failure_names_the_invalid_value(path: str, body: Any, ask: Ask, named: str) -> None:
    with pytest.raises(ExternalServiceFailed, match=named) as failed:
        await call_with_response(path, json.dumps(body).encode(), ask)
    assert "Invalid response from Jira" in failed.value.message


@pytest.mark.parametrize("path", ["/myself", "/field", "/search/jql", "/changelog/bulkfetch"])
@pytest.mark.parametrize("body", [b"<html>Log in</html>", b"", b"null", b"7", b"{", b'{"issues": [NaN]}'])
async def test_invalid_body_is_a_failure(path: str, body: bytes) -> None:
    with pytest.raises(ExternalServiceFailed, match="Invalid response from Jira"):
        await call_with_response(path, body, CHANGES)


async def test_change_with_an_invalid_response_may_be_done() -> None:
    for body in (b"<html>", b"{}"):
        with pytest.raises(ExternalServiceFailed) as failed:
            await call_with_response("/comment", body, COMMENT)
        assert failed.value.may_be_done


async def test_gives_up_an_endless_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracker, "MAX_PAGES", 5)
    with pytest.raises(ExternalServiceFailed, match="no end"):
        await call_with_response("/sprint", b'{"values": [{"id": 1, "name": "S", "state": "active"}]}', PLAN)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(
    [
        *(
            "summary",
            "description",
            "status",
            "priority",
            "labels",
            "assignee",
            "created",
            "updated",
            "duedate",
        ),
        *("fixVersions", "issuelinks", "resolutiondate"),
        *("customfield_10016", "customfield_10020", "customfield_10021", "customfield_10031"),
    ]
)


@given(st.dictionaries(NAMES, JSON, max_size=3))
async def test_any_field_value_gives_a_ticket_or_a_holdfast_error(fields: dict[str, Any]) -> None:
    try:
        page = await call_with_response(
            "/search/jql", json.dumps(make_search_result(make_issue(**fields))).encode(), CHANGES
        )
    except ExternalServiceFailed:
        return
    assert [ticket.key for ticket in page.tickets] == ["MCU-1"]


@given(st.sampled_from(["/myself", "/field", "/status", "/search/jql", "/changelog/bulkfetch"]), JSON)
async def test_any_response_raises_only_a_holdfast_error(path: str, body: Any) -> None:
    # The body may be valid by chance, such as an empty list of fields.
    with suppress(ExternalServiceFailed, NotFound, RequestRefused):
        await call_with_response(path, json.dumps(body).encode(), CHANGES)
