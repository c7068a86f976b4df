"""The stand-in for Jira itself: what it refuses, how it is driven over HTTP, and real payloads served by it."""

from __future__ import annotations

import csv
import json
import os
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agenticpm.demo.sandbox.jira import JiraSandbox, build_jira_app
from agenticpm.domain.tickets import Plan, SyncPage
from agenticpm.integrations.jira.tracker import JiraTracker
from holdfast.web import serve_in_thread
from tests.unit.agenticpm.jira_play import EMAIL, TOKEN, asked, make_sandbox, read

DEVLAKE = (
    Path(os.environ.get("HOLDFAST_REAL_DATA", Path(__file__).parents[4] / "shared" / "data"))
    / "agenticpm"
    / "devlake"
)


def told(
    sandbox: JiraSandbox, method: str, path: str, *, auth: Any = (EMAIL, TOKEN), **request: Any
) -> httpx2.Response:
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
def test_refuses_a_query_that_it_does_not_understand(jql: str) -> None:
    answer = told(make_sandbox(), "POST", "/rest/api/3/search/jql", json={"jql": jql})
    assert answer.status_code == 400
    assert answer.json()["errorMessages"]


def test_the_time_in_a_query_is_that_of_the_user() -> None:
    def found(zone: str) -> int:
        jql = 'project = "MCU" AND updated >= "2026-02-04 10:00"'
        answer = told(make_sandbox(zone=zone), "GET", "/rest/api/3/search/jql", params={"jql": jql})
        return len(answer.json()["issues"])

    assert found("UTC") < found("Australia/Sydney")


def test_without_fields_a_search_tells_ids_alone() -> None:
    answer = told(
        make_sandbox(), "POST", "/rest/api/3/search/jql", json={"jql": "project = MCU", "maxResults": 1}
    )
    assert list(answer.json()["issues"][0]) == ["id"]


def test_a_token_that_is_not_its_own_is_refused() -> None:
    asked_for = {"jql": "project = MCU", "nextPageToken": "bm9uc2Vuc2U="}
    assert told(make_sandbox(), "POST", "/rest/api/3/search/jql", json=asked_for).status_code == 400


def test_the_old_search_is_gone_where_there_is_a_new_one() -> None:
    assert told(make_sandbox(), "GET", "/rest/api/3/search").status_code == 410
    assert told(make_sandbox(has_tokens=False), "POST", "/rest/api/3/search/jql").status_code == 404


@pytest.mark.parametrize("auth", [None, (EMAIL, "wrong"), ("other@example.com", TOKEN)])
def test_asks_who_is_there(auth: Any) -> None:
    assert told(make_sandbox(), "GET", "/rest/api/3/myself", auth=auth).status_code == 401


def test_is_driven_over_http() -> None:
    sandbox = make_sandbox()
    made = told(sandbox, "POST", "/sandbox/issues", json={"project": "MCU", "summary": "New", "points": 3})
    assert made.json()["key"] == "MCU-157"
    edit = {"key": "MCU-157", "status": "In Progress", "by": "Damien"}
    edited = told(sandbox, "POST", "/sandbox/issues", json=edit)
    assert edited.json()["fields"]["status"]["name"] == "In Progress"
    assert told(sandbox, "POST", "/sandbox/issues", json={"key": "MCU-9999"}).status_code == 400
    assert (
        told(sandbox, "POST", "/sandbox/issues", json={"key": "MCU-157", "colour": "red"}).status_code == 400
    )
    told(sandbox, "POST", "/sandbox/links", json={"blocker": "MCU-157", "blocked": "MCU-156"})
    version = {"project": "MCU", "name": "Beta launch", "releaseDate": "2026-04-15"}
    assert told(sandbox, "POST", "/sandbox/versions", json=version).json()["releaseDate"] == "2026-04-15"
    closed = told(sandbox, "POST", "/sandbox/sprints", json={"name": "Sprint 12", "state": "closed"})
    assert closed.json()["state"] == "closed"
    told(sandbox, "DELETE", "/sandbox/issues/MCU-110")
    told(sandbox, "POST", "/sandbox/faults", json={"failed_before": 1.0})
    assert told(sandbox, "GET", "/rest/api/3/myself").status_code == 503
    told(sandbox, "POST", "/sandbox/faults", json={})
    tickets = {
        each.key: each for page in asked(sandbox, lambda jira: read(jira, None)) for each in page.tickets
    }
    assert "MCU-110" not in tickets
    assert tickets["MCU-156"].blocked_reason == "Blocked by MCU-157"
    assert told(sandbox, "GET", "/sandbox/ledger").json() == {"ledger": []}


# --- real payloads ------------------------------------------------------------------------------------------


def rows_of(name: str) -> list[dict[str, Any]]:
    """Payloads as they came from a real Jira, and the address each came from."""
    csv.field_size_limit(sys.maxsize)
    with (DEVLAKE / name).open(encoding="utf-8", newline="") as file:
        return [{**json.loads(row["data"]), "#url": row["url"]} for row in csv.DictReader(file)]


def real_sandbox() -> JiraSandbox:
    sandbox = make_sandbox(with_sample=False)
    desk = sandbox.data
    desk.add_project("EE", "Enterprise")
    issues = [each for each in rows_of("_raw_jira_api_issues.csv") if each["key"].startswith("EE-")]
    desk.issues = {each["id"]: {name: each[name] for name in ("id", "key", "fields")} for each in issues}
    desk.statuses += [_without_url(each) for each in rows_of("_raw_jira_api_status.csv")]
    desk.sprints = {each["id"]: _without_url(each) for each in rows_of("_raw_jira_api_sprints.csv")}
    for sprint in desk.sprints.values():
        sprint["originBoardId"] = 1
    # The changelogs are of other issues, which are not among the payloads: they are lent to the first ones.
    lenders: dict[str, str] = {}
    for entry in rows_of("_raw_jira_api_issue_changelogs.csv"):
        lender = entry["#url"].partition("/issue/")[2].partition("/")[0]
        id = lenders.setdefault(lender, list(desk.issues)[len(lenders)])
        desk.histories.setdefault(id, []).append(_without_url(entry))
    return sandbox


def _without_url(told: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in told.items() if name != "#url"}


@pytest.mark.skipif(
    not DEVLAKE.is_dir(),
    reason="needs real data: set HOLDFAST_REAL_DATA to a folder with agenticpm/devlake",
)
@pytest.mark.parametrize("has_tokens", [True, False])
def test_real_payloads_are_read_page_by_page(has_tokens: bool) -> None:
    sandbox = real_sandbox()
    sandbox.max_page_size, sandbox.has_tokens = 20, has_tokens
    desk = sandbox.data
    first = next(iter(desk.issues.values()))

    async def ask(jira: JiraTracker) -> tuple[list[SyncPage], SyncPage, Plan]:
        pages = await read(jira, None, "EE")
        desk.edit(first["key"], summary="Anew")
        return pages, await jira.fetch_changes("EE", pages[-1].checkpoint), await jira.fetch_plan("EE")

    pages, anew, plan = asked(sandbox, ask, page_size=20)
    tickets = {ticket.key: ticket for page in pages for ticket in page.tickets}
    assert sorted(tickets) == sorted(each["key"] for each in desk.issues.values())
    assert len(tickets) == sum(len(page.tickets) for page in pages) == 30
    assert any(each.sprint and each.assignee for each in tickets.values())
    assert any(each.started_at and each.resolved_at for each in tickets.values())
    assert len(desk.histories[first["id"]]) > 20
    assert (anew.changes[-1].field, anew.changes[-1].after) == ("summary", "Anew")
    assert len(plan.sprints) == len(desk.sprints) > 10
