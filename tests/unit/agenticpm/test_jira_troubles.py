"""A Jira that is unwell for a moment, or very large in one minute: reading goes on, ends, and loses nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from datetime import UTC
from typing import Any, TypeVar

import httpx2
import pytest

from agenticpm.demo.sandbox.jira import JiraSandbox, build_jira_app
from agenticpm.domain.tickets import SyncPage
from agenticpm.integrations.jira.read_position import SEEN_MAX, ReadPosition, parse_position
from agenticpm.integrations.jira.tracker import JiraTracker
from holdfast.core.errors import ExternalServiceFailed, ExternalServiceRefused, NotFound
from tests.unit.agenticpm.jira_play import EMAIL, TOKEN, HandClock, asked_inside, make_sandbox, read

T = TypeVar("T")
Twist = Callable[[httpx2.Request], httpx2.Response | None]
CHECKPOINT_BYTES_MAX = 64_000


class Between(httpx2.AsyncBaseTransport):
    """What stands between us and the sandbox: it answers itself where it has an answer, and counts by path."""

    def __init__(self, sandbox: JiraSandbox, twist: Twist) -> None:
        self.inner, self.twist = httpx2.ASGITransport(build_jira_app(sandbox)), twist
        self.paths: list[str] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.paths.append(request.url.path)
        return self.twist(request) or await self.inner.handle_async_request(request)


def through(
    sandbox: JiraSandbox,
    twist: Twist,
    ask: Callable[[JiraTracker, Between], Awaitable[T]],
    **settings: Any,
) -> T:
    async def run() -> T:
        between = Between(sandbox, twist)
        url = "http://jira.example.com"
        async with httpx2.AsyncClient(transport=between, base_url=url, auth=(EMAIL, TOKEN)) as http:
            return await ask(JiraTracker(http, clock=sandbox.clock, **settings), between)

    return asyncio.run(run())


def full_sandbox(tickets: int, clock: HandClock | None = None, **settings: Any) -> JiraSandbox:
    sandbox = make_sandbox(clock=clock or HandClock(), with_sample=False, **settings)
    sandbox.data.add_project("MCU", "Centre")
    for number in range(tickets):
        sandbox.data.create("MCU", f"Ticket {number}")
    return sandbox


def keys_of(pages: list[SyncPage]) -> list[str]:
    return [ticket.key for page in pages for ticket in page.tickets]


def answering(status: int, end: str, times: int = 1) -> Twist:
    """So many requests to a path are answered so, then none."""
    left = times

    def twist(request: httpx2.Request) -> httpx2.Response | None:
        nonlocal left
        if not request.url.path.endswith(end) or left == 0:
            return None
        left -= 1
        return httpx2.Response(status, text="<html>not just now</html>")

    return twist


# --- what is there, and what is not -------------------------------------------------------------------------


@pytest.mark.parametrize("status", [404, 405, 410])
def test_a_search_that_is_not_there_for_a_moment_is_asked_again_the_next_time(status: int) -> None:
    async def ask(jira: JiraTracker, _: Between) -> SyncPage:
        with pytest.raises((NotFound, ExternalServiceRefused), match=str(status)):
            await jira.fetch_changes("MCU", None)
        return await jira.fetch_changes("MCU", None)

    page = through(full_sandbox(3), answering(status, "/search/jql"), ask)
    assert len(page.tickets) == 3


def test_a_server_without_tokens_is_known_for_a_cycle_and_believed_back() -> None:
    sandbox = full_sandbox(3, has_tokens=False)

    async def ask(jira: JiraTracker, between: Between) -> list[int]:
        counted = []
        for _ in range(2):
            assert len((await jira.fetch_changes("MCU", None)).tickets) == 3
            counted.append(sum(path.endswith("/search/jql") for path in between.paths))
        sandbox.has_tokens = True  # It was replaced: the old search is gone.
        assert len((await jira.fetch_changes("MCU", None)).tickets) == 3
        counted.append(sum(path.endswith("/search/jql") for path in between.paths))
        return counted

    assert through(sandbox, lambda _: None, ask) == [1, 1, 2]


@pytest.mark.parametrize(("status", "bulks"), [(404, [1, 1, 2]), (400, [1, 2, 3])])
def test_changelogs_in_bulk_that_fail_once_come_one_by_one_and_are_asked_for_again(
    status: int, bulks: list[int]
) -> None:
    async def ask(jira: JiraTracker, between: Between) -> list[int]:
        counted = []
        for step in range(3):
            if step == 2:
                await jira.fetch_plan("MCU")
            assert len((await jira.fetch_changes("MCU", None)).tickets) == 2
            counted.append(sum(path.endswith("/bulkfetch") for path in between.paths))
        return counted

    assert through(full_sandbox(2), answering(status, "/bulkfetch"), ask) == bulks


# --- what waits ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hidden", [None, "MCU-2", "MCU-40", "MCU-71"])
def test_all_that_wait_are_read_with_what_they_wait_for_and_a_hidden_one_is_left_out_alone(
    hidden: str | None,
) -> None:
    clock = HandClock()
    sandbox = full_sandbox(71, clock)
    for number in range(2, 72):
        sandbox.data.link("MCU-1", f"MCU-{number}")

    def twist(request: httpx2.Request) -> httpx2.Response | None:
        is_asked = b"key in" in request.content and f'\\"{hidden}\\"'.encode() in request.content
        return httpx2.Response(400, json={"errorMessages": ["does not exist"]}) if is_asked else None

    async def ask(jira: JiraTracker, _: Between) -> SyncPage:
        before = (await read(jira, None))[-1].checkpoint
        clock.at += 600
        sandbox.data.edit("MCU-1", status="Done")
        return await jira.fetch_changes("MCU", before)

    page = through(sandbox, twist, ask)
    wanted = {f"MCU-{number}" for number in range(1, 72)} - {hidden}
    assert {ticket.key for ticket in page.tickets} == wanted
    assert not any(ticket.is_blocked for ticket in page.tickets)


# --- changes that meet others -------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["move", "comment"])
def test_a_conflict_with_what_another_does_just_now_may_pass_later(what: str) -> None:
    def twist(request: httpx2.Request) -> httpx2.Response | None:
        is_change = request.method == "POST" and "/issue/" in request.url.path
        return httpx2.Response(409, json={"errorMessages": ["in transition"]}) if is_change else None

    async def ask(jira: JiraTracker, _: Between) -> ExternalServiceFailed:
        with pytest.raises(ExternalServiceFailed, match="in transition") as failed:
            await getattr(jira, what)("MCU-1", "Done", "ref")
        return failed.value

    assert not through(full_sandbox(1), twist, ask).may_be_done


@pytest.mark.parametrize("end", ["/transitions", "/issue/MCU-1"])
def test_a_move_of_a_ticket_that_is_gone_is_refused(end: str) -> None:
    """Before its transitions are read, and between them and its status."""

    async def ask(jira: JiraTracker, _: Between) -> ExternalServiceRefused:
        with pytest.raises(ExternalServiceRefused) as refused:
            await jira.move("MCU-1", "To Do", "ref")
        return refused.value

    sandbox = full_sandbox(1)
    assert through(sandbox, answering(404, end), ask).code == "404"
    assert sandbox.ledger == []


def test_a_look_for_a_comment_on_a_ticket_that_is_gone_finds_none() -> None:
    assert asked_inside(full_sandbox(1), lambda jira: jira.find_comment("MCU-9", "c")) is None


# --- times and places ---------------------------------------------------------------------------------------


def test_an_issue_of_the_future_does_not_end_the_reading() -> None:
    clock = HandClock()
    sandbox = full_sandbox(2, clock)
    sandbox.data.issues[next(iter(sandbox.data.issues))]["fields"]["updated"] = "2099-01-01T00:00:00.000+0000"

    async def ask(jira: JiraTracker) -> list[list[str]]:
        told, checkpoint = [], None
        for _ in range(3):
            pages = await read(jira, checkpoint)
            checkpoint = pages[-1].checkpoint
            assert (await jira.fetch_changes("MCU", checkpoint)).checkpoint == checkpoint
            told.append(keys_of(pages))
            clock.at += 600
            sandbox.data.edit("MCU-2", summary=str(clock.at))
        return told

    assert asked_inside(sandbox, ask) == [["MCU-2", "MCU-1"], ["MCU-2"], ["MCU-2"]]


@pytest.mark.parametrize("has_tokens", [True, False])
def test_a_window_of_many_pages_is_read_twice_and_not_once_for_each_page(has_tokens: bool) -> None:
    async def ask(jira: JiraTracker, between: Between) -> tuple[list[str], int]:
        pages = await read(jira, None)
        return keys_of(pages), sum("/search" in path for path in between.paths)

    keys, searches = through(full_sandbox(800, has_tokens=has_tokens), lambda _: None, ask)
    assert len(keys) == len(set(keys)) == 800
    # Sixteen pages; a few more where a page is looked at again because the start has moved, or to find the way.
    assert searches <= 2 * 16 + 6


@pytest.mark.parametrize("has_tokens", [True, False])
def test_more_of_one_minute_than_a_checkpoint_holds_is_told_whole_and_is_quiet_after_a_while(
    has_tokens: bool,
) -> None:
    clock = HandClock()
    sandbox = full_sandbox(SEEN_MAX + 250, clock, has_tokens=has_tokens)

    async def ask(jira: JiraTracker) -> list[int]:
        checkpoint, told = None, []
        for _ in range(4):
            pages = await read(jira, checkpoint)
            checkpoint = pages[-1].checkpoint
            assert max(len(page.checkpoint) for page in pages) < CHECKPOINT_BYTES_MAX
            told.append(len(set(keys_of(pages))))
            clock.at += 900
        sandbox.data.edit("MCU-7", summary="After all that")
        return [*told, len(keys_of(await read(jira, checkpoint)))]

    first, *later, edited = asked_inside(sandbox, ask, page_size=100)
    assert first == SEEN_MAX + 250
    assert later[-2:] == [0, 0]
    assert edited == 1


def test_the_longest_checkpoint_there_may_be_is_bounded() -> None:
    """The longest ids, the farthest times, the longest place."""
    page = {f"{number:032}": 253_000_000_000_000 for number in range(3 * SEEN_MAX)}
    before = ReadPosition("M" * 200, start=0, last=0)
    after, _ = before.advance(page, UTC, is_last=False, page_token="p" * 4000, now=60_000)
    assert (after.is_truncated, after.page_token is not None, len(after.seen)) == (True, True, SEEN_MAX)
    assert len(after.to_text()) < CHECKPOINT_BYTES_MAX
    assert parse_position(before.project, after.to_text()) == after
    longer, _ = before.advance(page, UTC, is_last=False, page_token="é" * 4000, now=60_000)
    assert longer.page_token is None


def test_a_place_is_for_the_search_that_it_was_given_with() -> None:
    before = ReadPosition("MCU", start=0, last=0)
    for at, place in ((100_000, "p"), (900_000, None)):
        after, is_whole = before.advance({"1": at, "2": at}, UTC, is_last=False, page_token="p", now=10**9)
        assert (after.page_token, is_whole) == (place, False)


def test_places_that_are_forgotten_only_cost_time_while_everything_seen_is_kept() -> None:
    async def ask(jira: JiraTracker, between: Between) -> tuple[list[str], int]:
        pages, forgotten = [await jira.fetch_changes("MCU", None)], 0
        while pages[-1].has_more:
            checkpoint = pages[-1].checkpoint
            if (place := parse_position("MCU", checkpoint).page_token) is not None:
                forgotten += 1
                checkpoint = checkpoint.replace(place, "forgotten")
            pages.append(await jira.fetch_changes("MCU", checkpoint))
        return keys_of(pages), forgotten

    keys, forgotten = through(full_sandbox(30), lambda _: None, ask, page_size=5)
    assert len(keys) == len(set(keys)) == 30
    assert forgotten > 3


def test_places_that_are_always_forgotten_are_nonsense_where_nothing_else_leads_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("agenticpm.integrations.jira.read_position.SEEN_MAX", 10)

    def twist(request: httpx2.Request) -> httpx2.Response | None:
        is_place = b"nextPageToken" in request.content
        return httpx2.Response(400, json={"errorMessages": ["token expired"]}) if is_place else None

    async def ask(jira: JiraTracker, between: Between) -> int:
        with pytest.raises(ExternalServiceFailed, match="rejects every page token"):
            await read(jira, None)
        return len(between.paths)

    assert through(full_sandbox(30), twist, ask, page_size=12) < 60


def test_what_slips_through_under_a_place_is_found_when_the_window_is_looked_over() -> None:
    """Here a place counts how many came before: an issue that moves to the end draws the others under it."""
    clock = HandClock()
    sandbox = full_sandbox(12, clock)

    def twist(request: httpx2.Request) -> httpx2.Response | None:
        if not request.url.path.endswith("/search/jql"):
            return None
        body = json.loads(request.content)
        start, found = int(body.get("nextPageToken", 0)), sandbox._search_issues(body["jql"])
        end = start + body["maxResults"]
        following = {"nextPageToken": str(end)} if end < len(found) else {"isLast": True}
        return httpx2.Response(200, json={"issues": found[start:end], **following})

    async def ask(jira: JiraTracker, _: Between) -> set[str]:
        pages = [await jira.fetch_changes("MCU", None)]
        while pages[-1].has_more:
            pages.append(await jira.fetch_changes("MCU", pages[-1].checkpoint))
            if len(pages) == 3:
                clock.at += 1
                sandbox.data.edit("MCU-1", summary="Moved")
        return set(keys_of(pages))

    assert through(sandbox, twist, ask, page_size=3) == {f"MCU-{number}" for number in range(1, 13)}


@pytest.mark.parametrize("id", ["\ud800", "", "../1", "9" * 33])
def test_an_id_that_is_none_is_nonsense_before_it_goes_anywhere(id: str) -> None:
    issue = {"id": id, "key": "MCU-1", "fields": {"updated": "2026-02-04T10:30:00.000+1100"}}
    body = json.dumps({"issues": [issue], "isLast": True}).encode()

    def twist(request: httpx2.Request) -> httpx2.Response | None:
        return httpx2.Response(200, content=body) if request.url.path.endswith("/search/jql") else None

    async def ask(jira: JiraTracker, _: Between) -> None:
        with pytest.raises(ExternalServiceFailed, match="expected id as"):
            await jira.fetch_changes("MCU", None)

    through(full_sandbox(1), twist, ask)
