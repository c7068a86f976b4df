"""Tests of the Asana tracker against its sandbox in process: changes, plan, comments and moves."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx2
import pytest

from agenticpm.domain.tickets import Plan, Priority, Snapshot, SyncPage, Ticket, TicketStage, apply_page
from agenticpm.integrations.asana.tracker import AsanaTracker
from holdfast.core.clock import RunClock
from holdfast.core.errors import ExternalServiceFailed, ExternalServiceRefused, InvalidRequest, NotFound
from holdfast.web import serve_in_thread
from holdfast.web.sandbox_faults import Faults
from holdfast_demo.agenticpm.sandbox.asana import AsanaSandbox, build_asana_app
from holdfast_demo.agenticpm.sandbox.asana_data import ME, PERSON, PROJECT

HERE = "http://asana.example.com"
TOKEN = "1/of-the-test"
NOW = datetime(2026, 3, 2, 9, tzinfo=UTC)
NOTHING = Snapshot(source="asana", project_key=PROJECT)


@asynccontextmanager
async def open_tracker(
    sandbox: AsanaSandbox, *, page_size: int = 50, token: str = TOKEN
) -> AsyncIterator[AsanaTracker]:
    """Open a tracker of the sandbox without a socket."""
    headers = {"authorization": f"Bearer {token}"}
    transport = httpx2.ASGITransport(build_asana_app(sandbox))
    async with httpx2.AsyncClient(transport=transport, base_url=HERE, headers=headers) as http:
        yield AsanaTracker(http, page_size=page_size)


async def sync_all(
    tracker: AsanaTracker, checkpoint: str | None, before: Snapshot = NOTHING
) -> tuple[str, Snapshot, list[SyncPage]]:
    """Read to the end and apply the pages as the loop does. Return the checkpoint, snapshot and pages."""
    pages: list[SyncPage] = []
    while not pages or pages[-1].has_more:
        page = await tracker.fetch_changes(PROJECT, checkpoint)
        before = apply_page(before, page, None, NOW)
        pages.append(page)
        checkpoint = page.checkpoint
    return pages[-1].checkpoint, before, pages


def find_by_title(snapshot: Snapshot, title: str) -> Ticket:
    """Return the only ticket with this title."""
    (found,) = [each for each in snapshot.tickets.values() if each.title == title]
    return found


def find_gid(sandbox: AsanaSandbox, name: str) -> str:
    """Return the gid of the only task with this name."""
    (found,) = [gid for gid, task in sandbox.data.tasks.items() if task["name"] == name]
    return found


PASS, BOARD, REFUND = "Sell a day pass at the pier", "Show delays on the board", "Refund a cancelled crossing"


# --- changes ------------------------------------------------------------------------------------------------


async def test_reads_every_task_as_a_ticket_except_milestones() -> None:
    async with open_tracker(AsanaSandbox(token=TOKEN)) as tracker:
        _, snapshot, (page,) = await sync_all(tracker, None)
    assert page.is_reset
    assert page.changes == ()
    assert len(snapshot.tickets) == 4
    sold = find_by_title(snapshot, PASS)
    assert (sold.status, sold.stage, sold.priority) == ("To do", TicketStage.to_do, Priority.high)
    assert (sold.points, sold.sprint, sold.has_criteria) == (Decimal(3), "Sprint 1", True)
    board = find_by_title(snapshot, BOARD)
    assert (board.stage, board.assignee) == (TicketStage.in_progress, "Ines Okafor")
    assert board.due_at == datetime(2026, 3, 20, tzinfo=UTC)
    assert board.started_at == board.created_at
    assert not board.has_criteria
    refund = find_by_title(snapshot, REFUND)
    assert (refund.is_blocked, refund.blocked_reason) == (True, "The bank has not sent its keys")
    done = find_by_title(snapshot, "Print the timetable")
    assert (done.stage, done.resolved_at is not None) == (TicketStage.done, True)
    assert sold.url == f"https://app.asana.com/0/{PROJECT}/{sold.id}"


async def test_reads_in_pages_and_only_the_first_is_a_reset() -> None:
    async with open_tracker(AsanaSandbox(), page_size=2) as tracker:
        _, snapshot, pages = await sync_all(tracker, None)
    assert [page.is_reset for page in pages] == [True, False, False]
    assert len(snapshot.tickets) == 4


@pytest.mark.proves("AP-24")
async def test_reports_each_edited_field_with_its_values_before_and_after() -> None:
    sandbox = AsanaSandbox()
    async with open_tracker(sandbox) as tracker:
        checkpoint, snapshot, _ = await sync_all(tracker, None)
        gid = find_gid(sandbox, BOARD)
        sandbox.data.edit(gid, {"section": "Blocked", "due_on": "2026-03-27", "Story points": 8})
        sandbox.data.edit(gid, {"Priority": "Low", "assignee": None, "name": "Delays", "completed": True})
        _, snapshot, (page,) = await sync_all(tracker, checkpoint, snapshot)
    assert [each.title for each in page.tickets] == ["Delays"]
    assert find_by_title(snapshot, "Delays").stage is TicketStage.done
    assert {each.by for each in page.changes} == {"Ines Okafor"}
    assert [(each.field, each.before, each.after) for each in page.changes] == [
        ("status", "In progress", "Blocked"),
        ("due", "2026-03-20", "2026-03-27"),
        ("points", "5", "8"),
        ("priority", None, "Low"),
        ("assignee", "Ines Okafor", None),
        ("title", BOARD, "Delays"),
        ("completed", "false", "true"),
    ]


async def test_deleted_or_removed_task_or_new_milestone_is_gone() -> None:
    sandbox = AsanaSandbox()
    async with open_tracker(sandbox) as tracker:
        checkpoint, snapshot, _ = await sync_all(tracker, None)
        sandbox.data.delete(find_gid(sandbox, PASS))
        sandbox.data.edit(find_gid(sandbox, BOARD), {"project": None})
        sandbox.data.edit(find_gid(sandbox, REFUND), {"resource_subtype": "milestone"})
        _, snapshot, (page,) = await sync_all(tracker, checkpoint, snapshot)
    assert len(page.gone) == 3
    assert [each.title for each in snapshot.tickets.values()] == ["Print the timetable"]


@pytest.mark.proves("AP-24")
async def test_expired_token_causes_a_reset_that_still_reports_the_changes() -> None:
    sandbox = AsanaSandbox()
    async with open_tracker(sandbox) as tracker:
        checkpoint, snapshot, _ = await sync_all(tracker, None)
        sandbox.data.edit(find_gid(sandbox, PASS), {"section": "In progress"})
        sandbox.data.delete(find_gid(sandbox, BOARD))
        sandbox.expire()
        _, snapshot, (page,) = await sync_all(tracker, checkpoint, snapshot)
    assert page.is_reset
    assert [(each.field, each.before, each.after) for each in page.changes] == [
        ("status", "To do", "In progress")
    ]
    assert len(snapshot.tickets) == 3
    assert find_by_title(snapshot, PASS).started_at is not None


async def test_sync_token_expires_after_a_day(tmp_path: Path) -> None:
    clock = RunClock(tmp_path / "clock", start=NOW.timestamp())
    sandbox = AsanaSandbox(clock=clock)
    async with open_tracker(sandbox) as tracker:
        checkpoint, _, _ = await sync_all(tracker, None)
        resets = []
        for wait in (86_000, 86_500):
            clock.advance(wait)
            page = await tracker.fetch_changes(PROJECT, checkpoint)
            checkpoint = page.checkpoint
            resets.append(page.is_reset)
        assert resets == [False, True]


async def test_full_read_resumes_after_a_crash() -> None:
    """A checkpoint gives the same page twice; a task edited meanwhile is reported afterwards."""
    sandbox = AsanaSandbox()
    async with open_tracker(sandbox, page_size=2) as tracker:
        first = await tracker.fetch_changes(PROJECT, None)
        once, again = [await tracker.fetch_changes(PROJECT, first.checkpoint) for _ in range(2)]
        # During a full read, a task that was already returned is edited.
        sandbox.data.edit(find_gid(sandbox, PASS), {"name": "Edited meanwhile"})
        after = apply_page(NOTHING, first, None, NOW)
        checkpoint, after, _ = await sync_all(tracker, first.checkpoint, after)
        _, after, _ = await sync_all(tracker, checkpoint, after)
    assert (once.tickets, once.changes, once.has_more) == (again.tickets, again.changes, again.has_more)
    assert not once.is_reset
    assert find_by_title(after, "Edited meanwhile").stage is TicketStage.to_do
    assert len(after.tickets) == 4


async def test_expired_offset_restarts_the_read() -> None:
    sandbox = AsanaSandbox()
    async with open_tracker(sandbox, page_size=2) as tracker:
        first = await tracker.fetch_changes(PROJECT, None)
        sandbox.expire()
        again = await tracker.fetch_changes(PROJECT, first.checkpoint)
        _, snapshot, _ = await sync_all(tracker, again.checkpoint, apply_page(NOTHING, again, None, NOW))
    assert again.is_reset
    assert len(snapshot.tickets) == 4


async def test_same_token_returns_the_same_page_twice() -> None:
    sandbox = AsanaSandbox()
    async with open_tracker(sandbox) as tracker:
        checkpoint, _, _ = await sync_all(tracker, None)
        sandbox.data.edit(find_gid(sandbox, PASS), {"section": "In progress"})
        pages = [await tracker.fetch_changes(PROJECT, checkpoint) for _ in range(2)]
        once, again = [page.model_copy(update={"checkpoint": ""}) for page in pages]
    assert once == again
    assert len(once.changes) == 1


@pytest.mark.parametrize(
    "checkpoint", ["", "nonsense", "[]", '{"project": "1200", "sync": 7}', '{"project": "other"}']
)
async def test_unknown_checkpoint_causes_a_full_read(checkpoint: str) -> None:
    async with open_tracker(AsanaSandbox()) as tracker:
        _, snapshot, pages = await sync_all(tracker, checkpoint)
    assert pages[0].is_reset
    assert len(snapshot.tickets) == 4


async def test_missing_project_is_not_found() -> None:
    async with open_tracker(AsanaSandbox()) as tracker:
        for project in ("9", ".."):
            with pytest.raises(NotFound):
                await tracker.fetch_changes(project, None)
            with pytest.raises(NotFound):
                await tracker.fetch_plan(project)


async def test_plan_consists_of_the_milestones() -> None:
    async with open_tracker(AsanaSandbox()) as tracker:
        plan = await tracker.fetch_plan(PROJECT)
    assert isinstance(plan, Plan)
    assert [(each.name, each.due_at, each.is_done) for each in plan.milestones] == [
        ("Pilot at the north pier", datetime(2026, 4, 30, tzinfo=UTC), False)
    ]


async def test_health_reports_the_user_or_a_wrong_token() -> None:
    async with open_tracker(AsanaSandbox(token=TOKEN)) as tracker:
        assert (await tracker.check_health()).detail == "Signed in as The agent."
    async with open_tracker(AsanaSandbox(token=TOKEN), token="other") as tracker:
        assert not (await tracker.check_health()).is_ok


async def test_rate_limit_reports_when_to_retry() -> None:
    async with open_tracker(AsanaSandbox(faults=Faults(too_many=1.0, retry_after_s=30))) as tracker:
        with pytest.raises(ExternalServiceFailed) as failed:
            await tracker.fetch_changes(PROJECT, None)
    assert (failed.value.retry_after_s, failed.value.may_be_done) == (30.0, False)


# --- comments and moves -------------------------------------------------------------------------------------


@pytest.mark.proves("AP-23")
async def test_finds_a_comment_by_its_reference() -> None:
    sandbox = AsanaSandbox()
    gid = find_gid(sandbox, PASS)
    async with open_tracker(sandbox) as tracker:
        before = await tracker.find_comment(gid, "act-1")
        made = await tracker.comment(gid, "Is this ready?\nPlease look.", "act-1")
        found, other = await tracker.find_comment(gid, "act-1"), await tracker.find_comment(gid, "act")
    assert (before, other) == (None, None)
    assert made == found
    assert [(each["what"], each["reference"], each["ticket"]) for each in sandbox.ledger] == [
        ("comment", "act-1", gid)
    ]
    assert sandbox.ledger[0]["text"].startswith("Is this ready?\nPlease look.\n")


async def test_ignores_a_comment_of_another_user_that_quotes_our_reference() -> None:
    sandbox = AsanaSandbox()
    gid = find_gid(sandbox, PASS)
    sandbox.data.add_comment(gid, "I saw this\nref: act-1", PERSON)
    async with open_tracker(sandbox) as tracker:
        assert await tracker.find_comment(gid, "act-1") is None


async def test_finds_a_comment_whose_answer_was_lost() -> None:
    sandbox = AsanaSandbox(faults=Faults(failed_after=1.0))
    gid = find_gid(sandbox, PASS)
    async with open_tracker(sandbox) as tracker:
        with pytest.raises(ExternalServiceFailed) as failed:
            await tracker.comment(gid, "Hello", "act-1")
        found = await tracker.find_comment(gid, "act-1")
    assert failed.value.may_be_done
    assert found is not None
    assert len(sandbox.ledger) == 1


async def test_rejects_a_comment_on_a_missing_task_and_a_multi_line_reference() -> None:
    async with open_tracker(AsanaSandbox()) as tracker:
        with pytest.raises(ExternalServiceRefused):
            await tracker.comment("9", "Hello", "act-1")
        assert await tracker.find_comment("9", "act-1") is None
        for reference in ("", "two\nlines"):
            with pytest.raises(InvalidRequest):
                await tracker.comment("9", "Hello", reference)


@pytest.mark.proves("AP-23")
async def test_announces_makes_and_finds_a_move() -> None:
    sandbox = AsanaSandbox()
    gid = find_gid(sandbox, PASS)
    async with open_tracker(sandbox) as tracker:
        before = await tracker.find_move(gid, "act-1")
        made = await tracker.move(gid, "in PROGRESS", "act-1")
        # The move was made, even if another user moved the task on.
        sandbox.data.edit(gid, {"section": "Done"})
        found = await tracker.find_move(gid, "act-1")
    assert before is None
    assert made == found
    assert made["status"] == "In progress"
    assert [(each["what"], each["reference"]) for each in sandbox.ledger] == [
        ("comment", "act-1"),
        ("move", ""),
    ]
    assert sandbox.data.tasks[gid]["section"] != made["section"]


async def test_announced_move_that_was_not_made_is_announced_once() -> None:
    sandbox = AsanaSandbox()
    gid = find_gid(sandbox, PASS)
    async with open_tracker(sandbox) as tracker:
        (section,) = [
            each["gid"] for each in sandbox.data.projects[PROJECT]["sections"] if each["name"] == "Done"
        ]
        sandbox.data.add_comment(gid, f"Moving this task to Done.\n\nsection: {section}\nref: act-1", ME)
        before = await tracker.find_move(gid, "act-1")
        await tracker.move(gid, "Done", "act-1")
        after = await tracker.find_move(gid, "act-1")
    assert before is None
    assert after is not None and after["status"] == "Done"
    assert [each["what"] for each in sandbox.ledger] == ["move"]


async def test_other_moves_do_not_count_as_the_announced_one() -> None:
    """The move counts only while the task is in the announced section."""
    sandbox = AsanaSandbox()
    gid = find_gid(sandbox, PASS)
    async with open_tracker(sandbox) as tracker:
        (section,) = [
            each["gid"] for each in sandbox.data.projects[PROJECT]["sections"] if each["name"] == "Done"
        ]
        sandbox.data.add_comment(gid, f"Moving this task to Done.\n\nsection: {section}\nref: act-1", ME)
        await tracker.move(gid, "Blocked", "act-2")
        found = [await tracker.find_move(gid, "act-1")]
        sandbox.data.edit(gid, {"section": "Done"}, PERSON)
        found.append(await tracker.find_move(gid, "act-1"))
        sandbox.data.edit(gid, {"section": "To do"}, PERSON)
        after_another_move, while_in_the_section, moved_away = [*found, await tracker.find_move(gid, "act-1")]
    assert (after_another_move, moved_away) == (None, None)
    assert while_in_the_section is not None and while_in_the_section["status"] == "Done"


async def test_rejects_a_move_to_an_ambiguous_section_name() -> None:
    sandbox = AsanaSandbox(with_sample=False)
    (gid,) = sandbox.data.seed(
        {"project": PROJECT, "name": "P", "sections": ["To do", "Done", "done"], "tasks": [{"name": "A"}]}
    )
    async with open_tracker(sandbox) as tracker:
        with pytest.raises(ExternalServiceRefused, match="more than one section"):
            await tracker.move(gid, "Done", "act-1")
    assert sandbox.ledger == []


async def test_move_whose_answer_was_lost_happens_once() -> None:
    sandbox = AsanaSandbox()
    gid = find_gid(sandbox, PASS)
    found = []
    async with open_tracker(sandbox) as tracker:
        # The answer to the announcement is lost, then the answer to the move.
        for _ in range(2):
            sandbox.faults = Faults(failed_after=1.0)
            with pytest.raises(ExternalServiceFailed) as lost:
                await tracker.move(gid, "Done", "act-1")
            assert lost.value.may_be_done
            sandbox.faults = Faults()
            found.append(await tracker.find_move(gid, "act-1"))
    announced, moved = found
    assert announced is None
    assert moved is not None and moved["status"] == "Done"
    assert [each["what"] for each in sandbox.ledger] == ["comment", "move"]


@pytest.mark.parametrize("status", [429, 503, 409, 401])
async def test_failed_move_may_be_done_once_it_was_announced(status: int) -> None:
    sandbox = AsanaSandbox()
    gid = find_gid(sandbox, PASS)
    app = build_asana_app(sandbox)

    async def halfway(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"].endswith("/addTask"):
            headers = [(b"retry-after", b"30")]
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": b"{}"})
        else:
            await app(scope, receive, send)

    async def run() -> ExternalServiceFailed:
        transport = httpx2.ASGITransport(halfway)
        async with httpx2.AsyncClient(base_url="http://asana.example.com", transport=transport) as http:
            with pytest.raises(
                ExternalServiceFailed, match="announces the move was already posted"
            ) as failed:
                await AsanaTracker(http).move(gid, "Done", "act-1")
            return failed.value

    failed = await run()
    assert [each["what"] for each in sandbox.ledger] == ["comment"]
    assert failed.may_be_done
    assert failed.retry_after_s == (None if status == 401 else 30.0)


async def test_rejects_a_task_id_that_is_invalid_in_a_url() -> None:
    sandbox = AsanaSandbox()
    async with open_tracker(sandbox) as tracker:
        for ticket in ("", ".."):
            with pytest.raises(ExternalServiceRefused):
                await tracker.comment(ticket, "Hello", "act-1")
            with pytest.raises(ExternalServiceRefused):
                await tracker.move(ticket, "Done", "act-1")
    assert sandbox.ledger == []


async def test_task_already_in_the_section_is_neither_moved_nor_commented() -> None:
    sandbox = AsanaSandbox()
    gid = find_gid(sandbox, PASS)
    async with open_tracker(sandbox) as tracker:
        assert (await tracker.move(gid, "To do", "act-1"))["status"] == "To do"
    assert sandbox.ledger == []


async def test_rejects_a_move_of_a_missing_task_or_section_and_lists_the_sections() -> None:
    sandbox = AsanaSandbox()
    async with open_tracker(sandbox) as tracker:
        with pytest.raises(ExternalServiceRefused, match="To do, In progress, Blocked, Done"):
            await tracker.move(find_gid(sandbox, PASS), "Shipping", "act-1")
        with pytest.raises(ExternalServiceRefused, match="no task 9"):
            await tracker.move("9", "Done", "act-1")
    assert sandbox.ledger == []


# --- the sandbox --------------------------------------------------------------------------------------------


async def test_ledger_and_its_effects_survive_a_restart(tmp_path: Path) -> None:
    first = AsanaSandbox(folder=tmp_path)
    gid = find_gid(first, PASS)
    async with open_tracker(first) as tracker:
        await tracker.comment(gid, "Hello", "act-1")
        await tracker.move(gid, "Done", "act-2")
    again = AsanaSandbox(folder=tmp_path)
    assert again.ledger == first.ledger
    async with open_tracker(again) as tracker:
        assert await tracker.find_comment(gid, "act-1") is not None
    async with open_tracker(again) as tracker:
        assert await tracker.find_move(gid, "act-2") is not None


async def test_token_of_an_earlier_process_is_expired(tmp_path: Path) -> None:
    async with open_tracker(AsanaSandbox(folder=tmp_path)) as tracker:
        checkpoint, _, _ = await sync_all(tracker, None)
    async with open_tracker(AsanaSandbox(folder=tmp_path)) as tracker:
        again = await tracker.fetch_changes(PROJECT, checkpoint)
    assert again.is_reset


def test_control_routes_seed_edit_and_show() -> None:
    sandbox = AsanaSandbox(with_sample=False)
    with serve_in_thread(build_asana_app(sandbox)) as url, httpx2.Client(base_url=url) as http:
        seed = {"project": "5", "name": "P", "sections": ["To do", "Done"], "tasks": [{"name": "A"}]}
        http.post("/sandbox/seed", json=seed).raise_for_status()
        gid = http.post("/sandbox/tasks", json={"project": "5", "name": "B"}).json()["gid"]
        http.post(f"/sandbox/tasks/{gid}", json={"section": "Done"}).raise_for_status()
        shown = http.get(
            "/api/1.0/projects/5/tasks", params={"opt_fields": "name,memberships.section.name"}
        ).json()
        assert [each["memberships"][0]["section"]["name"] for each in shown["data"]] == ["To do", "Done"]
        assert http.get("/api/1.0/projects/5").json()["data"]["name"] == "P"
        assert http.get("/api/1.0/projects/5/tasks", params={"limit": 101}).status_code == 400
        http.delete(f"/sandbox/tasks/{gid}").raise_for_status()
        assert http.get(f"/api/1.0/tasks/{gid}").status_code == 404
        assert http.post(f"/sandbox/tasks/{gid}", json={}).status_code == 404
        http.post("/sandbox/faults", json={"too_many": 0.5}).raise_for_status()
        http.post("/sandbox/expire").raise_for_status()
        assert http.get("/sandbox/ledger").json() == {"ledger": []}
    assert sandbox.faults.too_many == 0.5
