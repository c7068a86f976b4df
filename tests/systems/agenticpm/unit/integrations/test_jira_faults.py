"""Tests of the Jira tracker against the sandbox in process with faults and very large results."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC
from typing import Any

import httpx2
import pytest

from agenticpm.domain.tickets import SyncPage
from agenticpm.integrations.jira.read_position import MAX_SEEN, ReadPosition, parse_position
from agenticpm.integrations.jira.tracker import JiraTracker
from holdfast.core.errors import ExternalServiceFailed, ExternalServiceRefused, NotFound
from holdfast_demo.agenticpm.sandbox.jira import JiraSandbox, build_jira_app
from tests.systems.agenticpm.unit.integrations.jira_client import (
    NOW,
    make_sandbox,
    open_jira,
    read_pages,
)
from tests.systems.agenticpm.unit.samples import ManualClock

Responder = Callable[[httpx2.Request], httpx2.Response | None]
MAX_CHECKPOINT_BYTES = 64_000


class FaultyTransport(httpx2.AsyncBaseTransport):
    """A transport that answers with the responder, or else with the sandbox, and records the paths."""

    def __init__(self, sandbox: JiraSandbox, responder: Responder) -> None:
        self.inner, self.responder = httpx2.ASGITransport(build_jira_app(sandbox)), responder
        self.paths: list[str] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.paths.append(request.url.path)
        return self.responder(request) or await self.inner.handle_async_request(request)


@asynccontextmanager
async def open_faulty_jira(
    sandbox: JiraSandbox, responder: Responder, **settings: Any
) -> AsyncIterator[tuple[JiraTracker, FaultyTransport]]:
    """Open a tracker behind a `FaultyTransport`."""
    between = FaultyTransport(sandbox, responder)
    async with open_jira(sandbox, between, **settings) as jira:
        yield jira, between


def make_full_sandbox(tickets: int, clock: ManualClock | None = None, **settings: Any) -> JiraSandbox:
    """Make a sandbox whose project MCU has this many tickets."""
    sandbox = make_sandbox(clock=clock or ManualClock(NOW), with_sample=False, **settings)
    sandbox.data.add_project("MCU", "Centre")
    for number in range(tickets):
        sandbox.data.create("MCU", f"Ticket {number}")
    return sandbox


def get_keys(pages: list[SyncPage]) -> list[str]:
    return [ticket.key for page in pages for ticket in page.tickets]


def make_responder(status: int, end: str, times: int = 1) -> Responder:
    """Return a responder that answers the first `times` requests to paths with this ending by the status."""
    left = times

    def responder(request: httpx2.Request) -> httpx2.Response | None:
        nonlocal left
        if not request.url.path.endswith(end) or left == 0:
            return None
        left -= 1
        return httpx2.Response(status, text="<html>not just now</html>")

    return responder


# --- missing endpoints, blocked tickets ---------------------------------------------------------------------


@pytest.mark.parametrize("status", [404, 405, 410])
async def test_read_fails_without_the_search_endpoint_and_the_next_one_succeeds(status: int) -> None:
    async with open_faulty_jira(make_full_sandbox(3), make_responder(status, "/search/jql")) as (jira, _):
        with pytest.raises((NotFound, ExternalServiceRefused), match=str(status)):
            await jira.fetch_changes("MCU", None)
        page = await jira.fetch_changes("MCU", None)
    assert len(page.tickets) == 3


async def test_remembers_a_server_without_page_tokens_until_it_has_them() -> None:
    """The numbers are the requests to the search by token after each of three reads."""
    sandbox = make_full_sandbox(3, has_tokens=False)
    async with open_faulty_jira(sandbox, lambda _: None) as (jira, between):
        counted = []
        for _ in range(2):
            assert len((await jira.fetch_changes("MCU", None)).tickets) == 3
            counted.append(sum(path.endswith("/search/jql") for path in between.paths))
        sandbox.has_tokens = True  # Gone for good: the old search was replaced.
        assert len((await jira.fetch_changes("MCU", None)).tickets) == 3
        counted.append(sum(path.endswith("/search/jql") for path in between.paths))
        assert counted == [1, 1, 2]


@pytest.mark.parametrize(("status", "bulks"), [(404, [1, 1, 2]), (400, [1, 2, 3])])
async def test_reads_changelogs_one_by_one_after_the_bulk_request_failed_once(
    status: int, bulks: list[int]
) -> None:
    """A missing bulk endpoint is remembered until the plan is read; a refused request is not."""
    async with open_faulty_jira(make_full_sandbox(2), make_responder(status, "/bulkfetch")) as (
        jira,
        between,
    ):
        counted = []
        for step in range(3):
            if step == 2:
                await jira.fetch_plan("MCU")
            assert len((await jira.fetch_changes("MCU", None)).tickets) == 2
            counted.append(sum(path.endswith("/bulkfetch") for path in between.paths))
        assert counted == bulks


@pytest.mark.parametrize("hidden", [None, "MCU-2", "MCU-40", "MCU-71"])
async def test_reads_waiting_tickets_with_their_blockers_and_skips_hidden_ones(
    hidden: str | None,
) -> None:
    clock = ManualClock(NOW)
    sandbox = make_full_sandbox(71, clock)
    for number in range(2, 72):
        sandbox.data.link("MCU-1", f"MCU-{number}")

    def responder(request: httpx2.Request) -> httpx2.Response | None:
        is_asked = b"key in" in request.content and f'\\"{hidden}\\"'.encode() in request.content
        return httpx2.Response(400, json={"errorMessages": ["does not exist"]}) if is_asked else None

    async with open_faulty_jira(sandbox, responder) as (jira, _):
        before = (await read_pages(jira, None))[-1].checkpoint
        clock.seconds += 600
        sandbox.data.edit("MCU-1", status="Done")
        page = await jira.fetch_changes("MCU", before)
    wanted = {f"MCU-{number}" for number in range(1, 72)} - {hidden}
    assert {ticket.key for ticket in page.tickets} == wanted
    assert not any(ticket.is_blocked for ticket in page.tickets)


# --- conflicting changes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["move", "comment"])
async def test_conflict_with_a_concurrent_change_is_retryable(what: str) -> None:
    def responder(request: httpx2.Request) -> httpx2.Response | None:
        is_change = request.method == "POST" and "/issue/" in request.url.path
        return httpx2.Response(409, json={"errorMessages": ["in transition"]}) if is_change else None

    async with open_faulty_jira(make_full_sandbox(1), responder) as (jira, _):
        with pytest.raises(ExternalServiceFailed, match="in transition") as failed:
            await getattr(jira, what)("MCU-1", "Done", "ref")
        assert not failed.value.may_be_done


@pytest.mark.parametrize("end", ["/transitions", "/issue/MCU-1"])
async def test_rejects_a_move_of_a_missing_ticket(end: str) -> None:
    """Delete it before its transitions are read, and between them and its status."""

    sandbox = make_full_sandbox(1)
    async with open_faulty_jira(sandbox, make_responder(404, end)) as (jira, _):
        with pytest.raises(ExternalServiceRefused) as refused:
            await jira.move("MCU-1", "To Do", "ref")
        assert refused.value.code == "404"
    assert sandbox.ledger == []


async def test_finds_no_comment_on_a_missing_ticket() -> None:
    async with open_jira(make_full_sandbox(1)) as jira:
        assert await jira.find_comment("MCU-9", "c") is None


# --- read positions -----------------------------------------------------------------------------------------


async def test_issue_dated_in_the_future_hides_no_later_change() -> None:
    """It is reported once, and each later edit of another issue is reported too."""
    clock = ManualClock(NOW)
    sandbox = make_full_sandbox(2, clock)
    sandbox.data.issues[next(iter(sandbox.data.issues))]["fields"]["updated"] = "2099-01-01T00:00:00.000+0000"
    async with open_jira(sandbox) as jira:
        reported, checkpoint = [], None
        for _ in range(3):
            pages = await read_pages(jira, checkpoint)
            checkpoint = pages[-1].checkpoint
            assert (await jira.fetch_changes("MCU", checkpoint)).checkpoint == checkpoint
            reported.append(get_keys(pages))
            clock.seconds += 600
            sandbox.data.edit("MCU-2", summary=str(clock.seconds))
        assert reported == [["MCU-2", "MCU-1"], ["MCU-2"], ["MCU-2"]]


@pytest.mark.parametrize("has_tokens", [True, False])
async def test_reads_a_window_of_many_pages_twice_and_not_once_per_page(has_tokens: bool) -> None:
    sandbox = make_full_sandbox(160, has_tokens=has_tokens)
    async with open_faulty_jira(sandbox, lambda _: None, page_size=10) as (jira, between):
        pages = await read_pages(jira, None)
        keys, searches = get_keys(pages), sum("/search" in path for path in between.paths)
    assert len(keys) == len(set(keys)) == 160
    # Sixteen pages, and a few more to re-read a page whose start has moved or to find the position.
    assert searches <= 2 * 16 + 6


@pytest.mark.parametrize("has_tokens", [True, False])
async def test_returns_more_tickets_of_one_minute_than_a_checkpoint_holds(
    has_tokens: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All are returned, and a later edit is reported alone."""
    monkeypatch.setattr("agenticpm.integrations.jira.read_position.MAX_SEEN", 100)
    clock = ManualClock(NOW)
    sandbox = make_full_sandbox(125, clock, has_tokens=has_tokens)
    async with open_jira(sandbox, page_size=10) as jira:
        checkpoint, counts = None, []
        for _ in range(4):
            pages = await read_pages(jira, checkpoint)
            checkpoint = pages[-1].checkpoint
            counts.append(len(set(get_keys(pages))))
            clock.seconds += 900
        sandbox.data.edit("MCU-7", summary="After all that")
        first, *later, edited = [*counts, len(get_keys(await read_pages(jira, checkpoint)))]
    assert first == 125
    assert later[-2:] == [0, 0]
    assert edited == 1


def test_longest_checkpoint_is_bounded() -> None:
    """Use the longest ids, the latest times and the longest page token."""
    page = {f"{number:032}": 253_000_000_000_000 for number in range(3 * MAX_SEEN)}
    before = ReadPosition("M" * 200, start=0, last=0)
    after, _ = before.advance(page, UTC, is_last=False, page_token="p" * 4000, now=60_000)
    assert (after.is_truncated, after.page_token is not None, len(after.seen)) == (True, True, MAX_SEEN)
    assert len(after.to_text()) < MAX_CHECKPOINT_BYTES
    assert parse_position(before.project, after.to_text()) == after
    longer, _ = before.advance(page, UTC, is_last=False, page_token="é" * 4000, now=60_000)
    assert longer.page_token is None


def test_page_token_is_valid_only_for_its_own_search() -> None:
    before = ReadPosition("MCU", start=0, last=0)
    for at, place in ((100_000, "p"), (900_000, None)):
        after, is_whole = before.advance({"1": at, "2": at}, UTC, is_last=False, page_token="p", now=10**9)
        assert (after.page_token, is_whole) == (place, False)


async def test_expired_page_tokens_lose_and_repeat_no_ticket() -> None:
    async with open_faulty_jira(make_full_sandbox(30), lambda _: None, page_size=5) as (jira, _):
        pages, forgotten = [await jira.fetch_changes("MCU", None)], 0
        while pages[-1].has_more:
            checkpoint = pages[-1].checkpoint
            if (place := parse_position("MCU", checkpoint).page_token) is not None:
                forgotten += 1
                checkpoint = checkpoint.replace(place, "forgotten")
            pages.append(await jira.fetch_changes("MCU", checkpoint))
        keys = get_keys(pages)
    assert len(keys) == len(set(keys)) == 30
    assert forgotten > 3


async def test_gives_up_if_jira_rejects_every_page_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A truncated position makes progress only with tokens, so the read fails instead of repeating."""
    monkeypatch.setattr("agenticpm.integrations.jira.read_position.MAX_SEEN", 10)

    def responder(request: httpx2.Request) -> httpx2.Response | None:
        is_place = b"nextPageToken" in request.content
        return httpx2.Response(400, json={"errorMessages": ["token expired"]}) if is_place else None

    async with open_faulty_jira(make_full_sandbox(30), responder, page_size=12) as (jira, between):
        with pytest.raises(ExternalServiceFailed, match="rejects every page token"):
            await read_pages(jira, None)
        assert len(between.paths) < 60


async def test_window_recheck_finds_an_issue_skipped_by_a_page_token() -> None:
    """The page tokens are offsets here: an issue that moves to the end shifts the others below it."""
    clock = ManualClock(NOW)
    sandbox = make_full_sandbox(12, clock)

    def responder(request: httpx2.Request) -> httpx2.Response | None:
        if not request.url.path.endswith("/search/jql"):
            return None
        body = json.loads(request.content)
        start, found = int(body.get("nextPageToken", 0)), sandbox._search_issues(body["jql"])
        end = start + body["maxResults"]
        following = {"nextPageToken": str(end)} if end < len(found) else {"isLast": True}
        return httpx2.Response(200, json={"issues": found[start:end], **following})

    async with open_faulty_jira(sandbox, responder, page_size=3) as (jira, _):
        pages = [await jira.fetch_changes("MCU", None)]
        while pages[-1].has_more:
            pages.append(await jira.fetch_changes("MCU", pages[-1].checkpoint))
            if len(pages) == 3:
                clock.seconds += 1
                sandbox.data.edit("MCU-1", summary="Moved")
        assert set(get_keys(pages)) == {f"MCU-{number}" for number in range(1, 13)}


@pytest.mark.parametrize("id", ["\ud800", "", "../1", "9" * 33])
async def test_rejects_an_invalid_issue_id_before_using_it(id: str) -> None:
    issue = {"id": id, "key": "MCU-1", "fields": {"updated": "2026-02-04T10:30:00.000+1100"}}
    body = json.dumps({"issues": [issue], "isLast": True}).encode()

    def responder(request: httpx2.Request) -> httpx2.Response | None:
        return httpx2.Response(200, content=body) if request.url.path.endswith("/search/jql") else None

    async with open_faulty_jira(make_full_sandbox(1), responder) as (jira, _):
        with pytest.raises(ExternalServiceFailed, match="expected id as"):
            await jira.fetch_changes("MCU", None)
