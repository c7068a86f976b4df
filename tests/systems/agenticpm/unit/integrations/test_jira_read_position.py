"""Tests of the Jira read position against the sandbox: nothing is skipped, unchanged tickets come once."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import httpx2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agenticpm.domain.tickets import Snapshot, SyncPage, apply_page
from agenticpm.integrations.jira.read_position import (
    ReadPosition,
    from_milliseconds,
    parse_position,
    to_milliseconds,
)
from agenticpm.integrations.jira.tracker import JiraTracker
from holdfast.core.errors import ExternalServiceFailed
from holdfast_demo.agenticpm.sandbox.jira import JiraSandbox, build_jira_app
from holdfast_demo.agenticpm.sandbox.jira_data import get_sort_key
from tests.systems.agenticpm.unit.integrations.jira_client import (
    EMAIL,
    NOW,
    TOKEN,
    make_sandbox,
    open_jira,
    read_pages,
)
from tests.systems.agenticpm.unit.samples import ManualClock

ZONE = "Australia/Sydney"


def make_small_sandbox(clock: ManualClock, tickets: int, **settings: Any) -> JiraSandbox:
    """Make a sandbox whose project MCU has this many tickets."""
    sandbox = make_sandbox(clock=clock, with_sample=False, **settings)
    sandbox.data.add_project("MCU", "Centre")
    for number in range(tickets):
        sandbox.data.create("MCU", f"Ticket {number}")
    return sandbox


# Steps: an edit, a new ticket, time that passes (less than a minute, and more), a page read, a full read.
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("edit"), st.integers(0, 100)),
        st.tuples(st.just("create"), st.just(0)),
        st.tuples(st.just("wait"), st.sampled_from([0.001, 0.4, 7.0, 59.0, 200.0, 4000.0])),
        st.tuples(st.just("page"), st.just(0)),
        st.tuples(st.just("again"), st.just(0)),
    ),
    max_size=40,
)


@given(
    STEPS,
    st.integers(0, 12),
    st.integers(1, 6),
    st.integers(2, 6),
    st.booleans(),
    # In the night of the clock change in Sydney, an hour occurs twice.
    st.sampled_from([datetime(2026, 2, 4, 10, tzinfo=UTC), datetime(2026, 4, 4, 14, 50, tzinfo=UTC)]),
)
async def test_sees_every_final_state_and_returns_unchanged_tickets_once(
    steps: list[tuple[str, float]],
    tickets: int,
    page_size: int,
    max_page_size: int,
    has_tokens: bool,
    start: datetime,
) -> None:
    """Any sequence of edits, waits and reads; reading a checkpoint twice gives the same page."""
    clock = ManualClock(start)
    sandbox = make_small_sandbox(clock, tickets, max_page_size=max_page_size, has_tokens=has_tokens)
    seen: dict[str, tuple[str, datetime]] = {}

    def take(page: SyncPage) -> str:
        seen.update({ticket.key: (ticket.title, ticket.updated_at) for ticket in page.tickets})
        return page.checkpoint

    async with open_jira(sandbox, page_size=page_size) as jira:
        checkpoint: str | None = None
        for number, (what, value) in enumerate(steps):
            if what == "edit" and sandbox.data.issues:
                key = list(sandbox.data.issues.values())[int(value) % len(sandbox.data.issues)]["key"]
                sandbox.data.edit(key, summary=f"Edit {number}")
            elif what == "create":
                sandbox.data.create("MCU", f"New {number}")
            elif what == "wait":
                clock.seconds += value
            elif what == "page":
                checkpoint = take(await jira.fetch_changes("MCU", checkpoint))
            else:
                first, second = [await jira.fetch_changes("MCU", checkpoint) for _ in range(2)]
                assert first == second
        for page in await read_pages(jira, checkpoint):
            checkpoint = take(page)
        current = {issue["key"]: issue["fields"] for issue in sandbox.data.issues.values()}
        assert seen == {
            key: (fields["summary"], datetime.fromisoformat(fields["updated"]))
            for key, fields in current.items()
        }
        quiet = await jira.fetch_changes("MCU", checkpoint)
        assert (quiet.tickets, quiet.changes, quiet.has_more) == ((), (), False)
        assert (quiet.checkpoint, checkpoint) == (checkpoint, quiet.checkpoint)


@given(st.lists(st.integers(0, 4), max_size=30), st.integers(1, 5))
async def test_reports_every_change_with_its_changelog_entry_once(edits: list[int], every: int) -> None:
    clock = ManualClock(NOW)
    sandbox = make_small_sandbox(clock, 5)
    async with open_jira(sandbox) as jira:
        reported: list[str] = []
        checkpoint = (await read_pages(jira, None))[-1].checkpoint
        for number, ticket in enumerate(edits):
            clock.seconds += 17
            sandbox.data.edit(f"MCU-{ticket + 1}", summary=f"Edit {number}")
            if number % every == 0 or number == len(edits) - 1:
                for page in await read_pages(jira, checkpoint):
                    checkpoint = page.checkpoint
                    reported += [str(change.after) for change in page.changes]
        assert sorted(reported) == sorted(f"Edit {number}" for number in range(len(edits)))


async def test_ticket_that_moves_between_pages_and_its_neighbours_are_not_lost() -> None:
    clock = ManualClock(NOW)
    sandbox = make_small_sandbox(clock, 9, has_tokens=False, max_page_size=3)
    async with open_jira(sandbox, page_size=2) as jira:
        page = await jira.fetch_changes("MCU", None)
        seen = {ticket.key for ticket in page.tickets}
        while page.has_more and len(seen) < 9:
            clock.seconds += 1
            sandbox.data.edit("MCU-1", labels=[str(clock.seconds)])
            page = await jira.fetch_changes("MCU", page.checkpoint)
            seen |= {ticket.key for ticket in page.tickets}
    assert seen == {f"MCU-{number}" for number in range(1, 10)}


async def test_issue_newer_than_its_search_position_hides_no_other() -> None:
    """The search index, which gives the order, lags behind the store, which gives the times."""
    clock = ManualClock(NOW)
    sandbox = make_small_sandbox(clock, 0)
    for number in range(6):
        clock.seconds += 86_400
        sandbox.data.create("MCU", f"Ticket {number}")
    found = sandbox.data.search
    late = sandbox.data.issues[next(iter(sandbox.data.issues))]
    fields = dict(late["fields"])

    def stale(jql: Any) -> list[Any]:
        """Return the first issue at its old position, and change it while the response is written."""
        late["fields"] = dict(fields)
        issues = found(jql)
        clock.seconds += 1
        late["fields"]["updated"] = datetime.fromtimestamp(clock.seconds, UTC).isoformat()
        return issues

    for page_size in (1, 2, 3):
        late["fields"] = dict(fields)
        async with open_jira(sandbox, page_size=page_size) as jira:
            sandbox.data.search = stale  # type: ignore[method-assign]
            first = await jira.fetch_changes("MCU", None)
            sandbox.data.search = found  # type: ignore[method-assign]
            rest = await read_pages(jira, first.checkpoint)
        assert len({ticket.key for page in [first, *rest] for ticket in page.tickets}) == 6


@pytest.mark.parametrize("page_size", [50, 3])
async def test_reports_a_late_change_without_repeating_its_neighbours(page_size: int) -> None:
    """The search shows a change only after newer ones. In small pages, issues beyond a page are kept."""
    clock = ManualClock(NOW)
    sandbox = make_small_sandbox(clock, 4)
    found = sandbox.data.search
    async with open_jira(sandbox, page_size=page_size) as jira:
        checkpoint = (await read_pages(jira, None))[-1].checkpoint
        clock.seconds += 600
        sandbox.data.edit("MCU-1", summary="Late")
        clock.seconds += 61
        for number in (2, 3, 4):
            sandbox.data.edit(f"MCU-{number}", summary="In time")
        sandbox.data.search = lambda jql: [  # type: ignore[method-assign]
            each for each in found(jql) if each["key"] != "MCU-1"
        ]
        first = await jira.fetch_changes("MCU", checkpoint)
        sandbox.data.search = found  # type: ignore[method-assign]
        second = await read_pages(jira, first.checkpoint)
        third = await read_pages(jira, second[-1].checkpoint)
    keys = [[ticket.key for page in pages for ticket in page.tickets] for pages in ([first], second, third)]
    assert keys == [["MCU-2", "MCU-3", "MCU-4"], ["MCU-1"], []]


async def test_reports_all_entries_of_a_ticket_that_changes_first_and_last() -> None:
    """The ticket is read last, when the read position has passed its first change."""
    clock = ManualClock(NOW)
    sandbox = make_small_sandbox(clock, 6)
    async with open_jira(sandbox, page_size=2) as jira:
        before = (await read_pages(jira, None))[-1].checkpoint
        for number in (1, 2, 3, 4, 5, 6, 1):
            clock.seconds += 3600
            sandbox.data.edit(f"MCU-{number}", summary=f"{clock.seconds}")
        pages = await read_pages(jira, before)
        assert len(pages) > 2
        assert [change.ticket for page in pages for change in page.changes] == [
            f"MCU-{number}" for number in (2, 3, 4, 5, 6, 1, 1)
        ]


async def test_gives_up_a_search_that_keeps_moving() -> None:
    """Eight issues of one minute come in pages of three: only full pages lead to another request."""
    clock = ManualClock(NOW)
    sandbox = make_small_sandbox(clock, 8, has_tokens=False, max_page_size=3)
    app, moves = build_jira_app(sandbox), False

    async def restless(scope: Any, receive: Any, send: Any) -> None:
        if moves and scope["path"].endswith("/search"):
            sandbox.data.delete(min(sandbox.data.issues.values(), key=get_sort_key)["key"])
            sandbox.data.create("MCU", "Anew")
        await app(scope, receive, send)

    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(restless), base_url="http://jira.example.com", auth=(EMAIL, TOKEN)
    ) as http:
        jira = JiraTracker(http, page_size=2)
        last = (await read_pages(jira, None))[-1]
        reading = parse_position("MCU", last.checkpoint)
        # The read position already contains everything that follows.
        at = next(iter(reading.seen.values()))
        seen = {str(id): at for id in range(10_000, 10_200)}
        moves = True
        with pytest.raises(ExternalServiceFailed, match="faster than the search can read"):
            await jira.fetch_changes("MCU", replace(reading, seen=seen).to_text())


async def test_gives_up_if_a_page_has_only_the_issue_returned_before() -> None:
    sandbox = make_small_sandbox(ManualClock(NOW), 3, has_tokens=False, max_page_size=1)
    async with open_jira(sandbox) as jira:
        with pytest.raises(ExternalServiceFailed, match="has no end"):
            await read_pages(jira, None)


@pytest.mark.parametrize(
    "checkpoint",
    [
        "",
        "nonsense",
        "null",
        "[]",
        "{}",
        "[" * 100_000,
        '{"form":1}',
        '{"form":1,"project":"MCU","start":"x","last":0,"since":null,"seen":{}}',
        '{"form":1,"project":"MCU","start":1,"last":0,"since":null,"seen":[]}',
        ReadPosition("OTHER", 5, 5, 5, {"1": 5}).to_text(),
    ],
    ids=lambda text: text[:60],
)
async def test_unknown_checkpoint_causes_a_full_read(checkpoint: str) -> None:
    async with open_jira(make_sandbox()) as jira:
        page = await jira.fetch_changes("MCU", checkpoint)
    assert page.is_reset
    assert len(page.tickets) >= 47


def test_read_position_round_trips_through_its_text() -> None:
    reading = ReadPosition("MCU", 60_000, 200_000, None, {"1": 70_000, "2": 200_000})
    assert parse_position("MCU", reading.to_text()) == reading


# On 5 April 2026, 02:30 occurs twice in Sydney.
@example(datetime(2026, 4, 4, 15, 32))
@example(datetime(2026, 4, 4, 16, 32))
@given(st.datetimes(datetime(2025, 1, 1), datetime(2027, 1, 1)))
def test_search_starts_at_a_full_unambiguous_minute(naive: datetime) -> None:
    zone, last = ZoneInfo(ZONE), naive.replace(tzinfo=UTC)
    reading, _ = ReadPosition("MCU").advance({"1": to_milliseconds(last)}, zone, is_last=True)
    assert reading.start is not None
    start = from_milliseconds(reading.start)
    assert start.second == start.microsecond == 0
    assert timedelta(0) < last - start < timedelta(hours=3)
    local = start.astimezone(zone)
    assert local.replace(fold=0).utcoffset() == local.replace(fold=1).utcoffset()


async def test_deleted_ticket_is_gone_after_a_full_read() -> None:
    sandbox = make_small_sandbox(ManualClock(NOW), 3)
    async with open_jira(sandbox) as jira:
        before = await jira.fetch_changes("MCU", None)
        sandbox.data.delete("MCU-2")
        after = await jira.fetch_changes("MCU", None)
    first = apply_page(Snapshot(source="jira", project_key="MCU"), before, None, NOW)
    second = apply_page(first, after, None, NOW)
    assert sorted(second.tickets) == ["MCU-1", "MCU-3"]
