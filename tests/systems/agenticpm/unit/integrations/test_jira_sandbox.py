"""Tests of the Jira sandbox over real HTTP: refusals, control endpoints, and payloads of a real Jira."""

from __future__ import annotations

import csv
import json
import os
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from holdfast.web import serve_in_thread
from holdfast_demo.agenticpm.sandbox.jira import JiraSandbox, build_jira_app
from tests.systems.agenticpm.unit.integrations.jira_client import (
    EMAIL,
    TOKEN,
    make_sandbox,
    open_jira,
    read_pages,
)

DEVLAKE = (
    Path(os.environ.get("HOLDFAST_REAL_DATA", Path(__file__).parents[6] / "shared" / "data"))
    / "agenticpm"
    / "devlake"
)


def send_request(
    sandbox: JiraSandbox, method: str, path: str, *, auth: Any = (EMAIL, TOKEN), **request: Any
) -> httpx2.Response:
    """Serve the sandbox for one request and return its response."""
    with serve_in_thread(build_jira_app(sandbox)) as url, httpx2.Client(base_url=url, auth=auth) as http:
        return http.request(method, path, **request)


@pytest.mark.parametrize(
    "jql",
    [
        "",
        "updated >= \"2026-02-04 10:00\"",
        'project = "MCU" OR project = "X"',
        'project = "MCU" AND status = Done',
        'project = "MCU" AND updated >= "yesterday"',
        'project = "MCU" AND updated >= "2026-02-04 10:00" AND updated >= "2026-02-04 11:00"',
        'project = "MCU" ORDER BY created DESC',
        'project = "NONE"',
        'key in ("MCU-9999")',
    ],
)  # fmt: skip
def test_rejects_an_unsupported_query(jql: str) -> None:
    answer = send_request(make_sandbox(), "POST", "/rest/api/3/search/jql", json={"jql": jql})
    assert answer.status_code == 400
    assert answer.json()["errorMessages"]


def test_query_times_are_in_the_users_zone() -> None:
    def found(zone: str) -> int:
        jql = 'project = "MCU" AND updated >= "2026-02-04 10:00"'
        answer = send_request(make_sandbox(zone=zone), "GET", "/rest/api/3/search/jql", params={"jql": jql})
        return len(answer.json()["issues"])

    assert found("UTC") < found("Australia/Sydney")


def test_search_without_fields_returns_only_ids() -> None:
    answer = send_request(
        make_sandbox(), "POST", "/rest/api/3/search/jql", json={"jql": "project = MCU", "maxResults": 1}
    )
    assert list(answer.json()["issues"][0]) == ["id"]


def test_rejects_an_invalid_page_token() -> None:
    asked_for = {"jql": "project = MCU", "nextPageToken": "bm9uc2Vuc2U="}
    assert send_request(make_sandbox(), "POST", "/rest/api/3/search/jql", json=asked_for).status_code == 400


def test_old_search_is_gone_when_the_new_one_exists() -> None:
    """And the reverse: without page tokens, the new search does not exist."""
    assert send_request(make_sandbox(), "GET", "/rest/api/3/search").status_code == 410
    assert send_request(make_sandbox(has_tokens=False), "POST", "/rest/api/3/search/jql").status_code == 404


@pytest.mark.parametrize("auth", [None, (EMAIL, "wrong"), ("other@example.com", TOKEN)])
def test_rejects_missing_or_wrong_credentials(auth: Any) -> None:
    assert send_request(make_sandbox(), "GET", "/rest/api/3/myself", auth=auth).status_code == 401


async def test_is_controlled_over_http() -> None:
    sandbox = make_sandbox()
    made = send_request(
        sandbox, "POST", "/sandbox/issues", json={"project": "MCU", "summary": "New", "points": 3}
    )
    assert made.json()["key"] == "MCU-157"
    edit = {"key": "MCU-157", "status": "In Progress", "by": "Damien"}
    edited = send_request(sandbox, "POST", "/sandbox/issues", json=edit)
    assert edited.json()["fields"]["status"]["name"] == "In Progress"
    assert send_request(sandbox, "POST", "/sandbox/issues", json={"key": "MCU-9999"}).status_code == 400
    assert (
        send_request(sandbox, "POST", "/sandbox/issues", json={"key": "MCU-157", "colour": "red"}).status_code
        == 400
    )
    send_request(sandbox, "POST", "/sandbox/links", json={"blocker": "MCU-157", "blocked": "MCU-156"})
    version = {"project": "MCU", "name": "Beta launch", "releaseDate": "2026-04-15"}
    assert (
        send_request(sandbox, "POST", "/sandbox/versions", json=version).json()["releaseDate"] == "2026-04-15"
    )
    closed = send_request(sandbox, "POST", "/sandbox/sprints", json={"name": "Sprint 12", "state": "closed"})
    assert closed.json()["state"] == "closed"
    send_request(sandbox, "DELETE", "/sandbox/issues/MCU-110")
    send_request(sandbox, "POST", "/sandbox/faults", json={"failed_before": 1.0})
    assert send_request(sandbox, "GET", "/rest/api/3/myself").status_code == 503
    send_request(sandbox, "POST", "/sandbox/faults", json={})
    async with open_jira(sandbox) as jira:
        tickets = {each.key: each for page in await read_pages(jira, None) for each in page.tickets}
    assert "MCU-110" not in tickets
    assert tickets["MCU-156"].blocked_reason == "Blocked by MCU-157"
    assert send_request(sandbox, "GET", "/sandbox/ledger").json() == {"ledger": []}


def load_rows(name: str) -> list[dict[str, Any]]:
    """Load payloads of a real Jira, with the address each came from."""
    csv.field_size_limit(sys.maxsize)
    with (DEVLAKE / name).open(encoding="utf-8", newline="") as file:
        return [{**json.loads(row["data"]), "#url": row["url"]} for row in csv.DictReader(file)]


def make_real_sandbox() -> JiraSandbox:
    """Make a sandbox whose data are payloads of a real Jira."""
    sandbox = make_sandbox(with_sample=False)
    desk = sandbox.data
    desk.add_project("EE", "Enterprise")
    issues = [each for each in load_rows("_raw_jira_api_issues.csv") if each["key"].startswith("EE-")]
    desk.issues = {each["id"]: {name: each[name] for name in ("id", "key", "fields")} for each in issues}
    desk.statuses += [_drop_url(each) for each in load_rows("_raw_jira_api_status.csv")]
    desk.sprints = {each["id"]: _drop_url(each) for each in load_rows("_raw_jira_api_sprints.csv")}
    for sprint in desk.sprints.values():
        sprint["originBoardId"] = 1
    # The changelogs belong to issues that are not among the payloads, so the first issues borrow them.
    lenders: dict[str, str] = {}
    for entry in load_rows("_raw_jira_api_issue_changelogs.csv"):
        lender = entry["#url"].partition("/issue/")[2].partition("/")[0]
        id = lenders.setdefault(lender, list(desk.issues)[len(lenders)])
        desk.histories.setdefault(id, []).append(_drop_url(entry))
    return sandbox


def _drop_url(payload: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in payload.items() if name != "#url"}


@pytest.mark.skipif(
    not DEVLAKE.is_dir(),
    reason="needs real data: set HOLDFAST_REAL_DATA to a folder with agenticpm/devlake",
)
@pytest.mark.parametrize("has_tokens", [True, False])
async def test_reads_real_payloads_page_by_page(has_tokens: bool) -> None:
    sandbox = make_real_sandbox()
    sandbox.max_page_size, sandbox.has_tokens = 20, has_tokens
    desk = sandbox.data
    first = next(iter(desk.issues.values()))
    async with open_jira(sandbox, page_size=20) as jira:
        pages = await read_pages(jira, None, "EE")
        desk.edit(first["key"], summary="Anew")
        reread, plan = await jira.fetch_changes("EE", pages[-1].checkpoint), await jira.fetch_plan("EE")
    tickets = {ticket.key: ticket for page in pages for ticket in page.tickets}
    assert sorted(tickets) == sorted(each["key"] for each in desk.issues.values())
    assert len(tickets) == sum(len(page.tickets) for page in pages) == 30
    assert any(each.sprint and each.assignee for each in tickets.values())
    assert any(each.started_at and each.resolved_at for each in tickets.values())
    assert len(desk.histories[first["id"]]) > 20
    assert (reread.changes[-1].field, reread.changes[-1].after) == ("summary", "Anew")
    assert len(plan.sprints) == len(desk.sprints) > 10
