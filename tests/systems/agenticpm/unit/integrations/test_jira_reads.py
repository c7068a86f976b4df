"""Tests of reading tickets, changes and plans from Jira, against the sandbox."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from agenticpm.domain.tickets import Priority, SyncPage, Ticket, TicketStage
from holdfast.core.errors import ExternalServiceFailed, ExternalServiceRefused
from holdfast.web.sandbox_faults import Faults
from holdfast_demo.agenticpm.sandbox.jira import JiraSandbox
from tests.systems.agenticpm.unit.integrations.jira_client import (
    NOW,
    make_sandbox,
    open_jira,
    read_pages,
)
from tests.systems.agenticpm.unit.samples import ManualClock


async def read_tickets(sandbox: JiraSandbox, **settings: Any) -> dict[str, Ticket]:
    """Read everything and return the tickets by key. `settings` are the tracker's."""
    async with open_jira(sandbox, **settings) as jira:
        pages = await read_pages(jira, None)
    return {ticket.key: ticket for page in pages for ticket in page.tickets}


async def read_change(change: Any) -> SyncPage:
    """Read the sample, make a change in the sandbox's data, and return the next page."""
    clock = ManualClock(NOW)
    sandbox = make_sandbox(clock=clock)
    async with open_jira(sandbox) as jira:
        before = await read_pages(jira, None)
        clock.seconds += 600
        change(sandbox.data)
        return await jira.fetch_changes("MCU", before[-1].checkpoint)


async def test_reads_the_documents_project_completely() -> None:
    """The sandbox's sample has the numbers of the document's example."""
    tickets = await read_tickets(make_sandbox())
    blocked = [each for each in tickets.values() if each.is_blocked]
    stages = [each.stage for each in tickets.values() if not each.is_blocked]
    assert (len(tickets), len(blocked)) == (47, 5)
    assert (
        stages.count(TicketStage.to_do),
        stages.count(TicketStage.in_progress),
        stages.count(TicketStage.done),
    ) == (
        22,
        8,
        12,
    )
    priorities = [each.priority for each in tickets.values()]
    assert [priorities.count(each) for each in Priority] == [2, 11, 24, 10]
    in_sprint = [each for each in tickets.values() if each.sprint == "Sprint 12"]
    assert sum(each.points or 0 for each in in_sprint) == 34
    assert sum(each.points or 0 for each in in_sprint if each.stage is TicketStage.done) == 21
    assert [each.key for each in tickets.values() if not each.has_criteria] == ["MCU-155"]


@pytest.mark.parametrize("has_tokens", [True, False])
async def test_both_paging_styles_read_the_same(has_tokens: bool) -> None:
    small = await read_tickets(make_sandbox(has_tokens=has_tokens, max_page_size=7))
    assert small == await read_tickets(make_sandbox())


async def test_page_has_at_most_the_requested_size() -> None:
    """A ticket that a changed one blocks comes in addition."""
    async with open_jira(make_sandbox(), page_size=20) as jira:
        pages = await read_pages(jira, None)
    assert len(pages[0].tickets) == 20
    assert all(len(page.tickets) <= 20 + 1 for page in pages)  # One more waits for another.
    assert [page.is_reset for page in pages] == [True] + [False] * (len(pages) - 1)


async def test_reads_the_fields_of_a_ticket() -> None:
    sandbox = make_sandbox(with_sample=False, clock=ManualClock(NOW))
    desk = sandbox.data
    desk.add_project("MCU", "Centre")
    desk.put_version("MCU", "Beta launch", releaseDate="2026-03-15")
    desk.add_sprint(
        "Sprint 12", "active", datetime(2026, 2, 3, tzinfo=UTC), datetime(2026, 2, 14, tzinfo=UTC)
    )
    desk.create(
        "MCU", "Redesign", number=142, description="Why\n\nBecause", assignee="Sarah K", priority="High",
        points=2.5, labels=["ui"], version="Beta launch", sprint="Sprint 12", due="2026-02-13",
    )  # fmt: skip
    ticket = (await read_tickets(sandbox))["MCU-142"]
    assert (ticket.title, ticket.description, ticket.status, ticket.stage) == (
        "Redesign",
        "Why\nBecause",
        "To Do",
        TicketStage.to_do,
    )
    assert (ticket.assignee, ticket.priority, ticket.points) == ("Sarah K", Priority.high, Decimal("2.5"))
    assert (ticket.labels, ticket.milestone, ticket.sprint) == (("ui",), "Beta launch", "Sprint 12")
    assert ticket.due_at == datetime(2026, 2, 13, tzinfo=UTC)
    assert ticket.created_at == ticket.updated_at == datetime(2026, 2, 4, 10, 30, tzinfo=UTC)
    assert ticket.url is not None
    assert ticket.url.endswith("/browse/MCU-142")
    assert not ticket.has_criteria


@pytest.mark.parametrize("has_tokens", [True, False])
async def test_reads_start_and_end_of_work_from_the_changelog(has_tokens: bool) -> None:
    clock = ManualClock(NOW)
    sandbox = make_sandbox(with_sample=False, clock=clock, has_tokens=has_tokens, max_page_size=2)
    sandbox.data.add_project("MCU", "Centre")
    sandbox.data.create("MCU", "A")
    moments = []
    for status in ("In Progress", "To Do", "In Review", "Done"):
        clock.seconds += 3600
        moments.append(datetime.fromtimestamp(clock.seconds, UTC))
        sandbox.data.edit("MCU-1", status=status)
    ticket = (await read_tickets(sandbox))["MCU-1"]
    assert (ticket.started_at, ticket.resolved_at) == (moments[0], moments[3])
    sandbox.data.edit("MCU-1", status="To Do")
    ticket = (await read_tickets(sandbox))["MCU-1"]
    assert (ticket.started_at, ticket.resolved_at) == (None, None)


async def test_reports_a_change_with_its_evidence() -> None:
    page = await read_change(lambda desk: desk.edit("MCU-150", by="Priya N", status="Blocked", points=8))
    assert [ticket.key for ticket in page.tickets] == ["MCU-150"]
    assert [(each.ticket, each.field, each.before, each.after, each.by) for each in page.changes] == [
        ("MCU-150", "status", "To Do", "Blocked", "Priya N"),
        ("MCU-150", "Story point estimate", None, "8", "Priya N"),
    ]
    assert len({each.id for each in page.changes}) == 1
    assert page.changes[0].at == page.tickets[0].updated_at


async def test_first_read_reports_no_history_as_changes() -> None:
    async with open_jira(make_sandbox()) as jira:
        pages = await read_pages(jira, None)
    assert [change for page in pages for change in page.changes] == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda desk: desk.edit("MCU-130", flagged=True), "Flagged: Impediment"),
        (lambda desk: desk.edit("MCU-130", status="Blocked"), "Its status is Blocked"),
        (lambda desk: desk.link("MCU-131", "MCU-130"), "Blocked by MCU-131"),
    ],
)
async def test_ticket_is_blocked_by_a_flag_a_status_or_another_ticket(change: Any, reason: str) -> None:
    tickets = {ticket.key: ticket for ticket in (await read_change(change)).tickets}
    assert (tickets["MCU-130"].is_blocked, tickets["MCU-130"].blocked_reason) == (True, reason)


async def test_done_ticket_is_not_blocked() -> None:
    page = await read_change(lambda desk: desk.edit("MCU-142", status="Done"))
    assert [(each.key, each.is_blocked) for each in page.tickets] == [("MCU-142", False)]


async def test_returns_a_ticket_again_when_the_one_it_waits_for_is_done() -> None:
    page = await read_change(lambda desk: desk.edit("MCU-122", status="Done"))
    assert {each.key: each.is_blocked for each in page.tickets} == {"MCU-122": False, "MCU-145": False}


@pytest.mark.parametrize(
    "change",
    [
        lambda desk: desk.edit("MCU-155", criteria="It imports."),
        lambda desk: desk.edit("MCU-155", description="Some words\n\n* Acceptance Criteria\nIt imports."),
    ],
)
async def test_finds_criteria_in_a_field_or_in_the_description(change: Any) -> None:
    assert [each.has_criteria for each in (await read_change(change)).tickets] == [True]


async def test_the_plan_has_sprints_and_versions() -> None:
    async with open_jira(make_sandbox(max_page_size=1)) as jira:
        plan = await jira.fetch_plan("MCU")
    assert [(each.name, each.state) for each in plan.sprints] == [
        ("Sprint 11", "closed"),
        ("Sprint 12", "active"),
        ("Sprint 13", "future"),
    ]
    assert plan.sprints[1].starts_at == datetime(2026, 2, 3, tzinfo=UTC)
    assert plan.sprints[1].goal == "Complete user profile migration"
    launch = plan.milestones[1]
    assert (launch.name, launch.due_at, launch.is_done) == (
        "Beta launch",
        datetime(2026, 3, 15, tzinfo=UTC),
        False,
    )
    assert plan.milestones[0].is_done


async def test_a_board_without_sprints_adds_none() -> None:
    sandbox = make_sandbox()
    sandbox.data.boards.append({"id": 2, "name": "Flow", "type": "kanban", "project": "MCU"})
    async with open_jira(sandbox) as jira:
        assert len((await jira.fetch_plan("MCU")).sprints) == 3


async def test_health_reports_the_user_or_the_failure() -> None:
    async with open_jira(make_sandbox()) as jira:
        fine = await jira.check_health()
    assert (fine.is_ok, fine.detail) == (True, "Signed in as AgenticPM")
    async with open_jira(make_sandbox(api_token="another")) as jira:
        wrong = await jira.check_health()
    assert not wrong.is_ok
    assert "credentials" in wrong.detail


@pytest.mark.parametrize("key", ['MCU" OR project = "X', "", "M CU", "../x"])
async def test_invalid_project_key_never_reaches_a_query(key: str) -> None:
    with pytest.raises(ExternalServiceRefused, match="Invalid project key"):
        async with open_jira(make_sandbox()) as jira:
            await jira.fetch_changes(key, None)


async def test_missing_project_is_rejected_with_jiras_message() -> None:
    with pytest.raises(ExternalServiceRefused, match="does not exist for the field 'project'"):
        async with open_jira(make_sandbox()) as jira:
            await jira.fetch_changes("NONE", None)


async def test_rate_limit_reports_when_to_retry() -> None:
    sandbox = make_sandbox(faults=Faults(calls_max=2, window_s=60))
    with pytest.raises(ExternalServiceFailed, match="no more requests") as failed:
        async with open_jira(sandbox) as jira:
            await jira.fetch_changes("MCU", None)
    assert failed.value.retry_after_s == 60
