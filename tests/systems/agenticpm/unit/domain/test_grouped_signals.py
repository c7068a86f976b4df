"""Tests of grouped signals: many old conditions at the first read are one signal, detected in one pass."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from agenticpm.domain.autonomy import propose
from agenticpm.domain.thresholds import Thresholds
from agenticpm.domain.tickets import (
    FieldChange,
    Signal,
    Snapshot,
    SyncPage,
    Ticket,
    TicketStage,
    Writing,
    apply_page,
)
from agenticpm.domain.writers.backlog_summary import MAX_HIGHLIGHTS, build_backlog_summary
from agenticpm.model import snapshots as kept
from agenticpm.model.entities import Autonomy
from agenticpm.model.events import get_now
from tests.systems.agenticpm.unit import sample_snapshots
from tests.systems.agenticpm.unit.sample_snapshots import (
    DAY,
    NOW,
    SPRINT,
    detect_first,
    detect_signals,
    get_keys,
    make_snapshot,
    make_ticket,
)
from tests.systems.agenticpm.unit.workers.loop_harness import Harness


def make_stale_ticket(number: int, **fields: Any) -> Ticket:
    """Make a ticket in progress that was last updated long ago; the lower the number, the longer."""
    return make_ticket(
        f"MCU-{number:02}",
        **{"stage": TicketStage.in_progress, "updated_at": NOW - (60 - number) * DAY} | fields,
    )


def make_ticket_without_criteria(number: int, **fields: Any) -> Ticket:
    """Make a ticket of the running sprint without acceptance criteria."""
    return make_ticket(f"MCU-{number:02}", **{"sprint": "12", "has_criteria": False} | fields)


def detect_next(
    seen: Snapshot, *tickets: Ticket, now: datetime = NOW + DAY, **how: Any
) -> tuple[Snapshot, list[Signal]]:
    """Apply a page with these tickets a day later, and detect its signals."""
    return sample_snapshots.detect_next(seen, *tickets, now=now, **how)


def test_many_stale_tickets_at_the_first_read_are_one_signal() -> None:
    _, signals = detect_first(make_snapshot(*map(make_stale_ticket, range(40))))
    assert get_keys(signals) == ["stale:MCU"]
    assert signals[0].summary == (
        "40 tickets are in progress and have not been updated for a long time: MCU-00, MCU-01, MCU-02, "
        "MCU-03, MCU-04, MCU-05, MCU-06, MCU-07, MCU-08, MCU-09 and 30 more"
    )
    assert [each.ticket for each in signals[0].evidence] == [*(f"MCU-{n:02}" for n in range(10)), None]
    assert (signals[0].evidence[-1].field, signals[0].evidence[-1].after) == ("tickets", "40")


def test_many_tickets_without_criteria_at_the_first_read_are_one_signal() -> None:
    after = make_snapshot(*map(make_ticket_without_criteria, range(11)), sprints=(SPRINT,))
    seen, signals = detect_first(after)
    assert get_keys(signals) == ["missing_criteria:MCU"]
    assert "11 tickets are in a current or upcoming sprint" in signals[0].summary
    touched = [make_ticket_without_criteria(number, updated_at=NOW + DAY) for number in range(11)]
    assert detect_next(seen, *touched)[1] == []
    _, signals = detect_next(seen, make_ticket_without_criteria(50, updated_at=NOW + DAY))
    assert get_keys(signals) == ["missing_criteria:MCU-50"]


def test_reports_a_few_tickets_one_by_one() -> None:
    _, signals = detect_first(make_snapshot(*map(make_stale_ticket, range(10))))
    assert sorted(get_keys(signals)) == [f"stale:MCU-{number:02}" for number in range(10)]


def test_reports_the_group_once_and_a_ticket_that_becomes_stale_later_alone() -> None:
    seen, _ = detect_first(
        make_snapshot(*map(make_stale_ticket, range(12)), make_stale_ticket(90, updated_at=NOW - DAY))
    )
    assert detect_next(seen)[1] == []
    fewer, signals = detect_next(
        seen, *(make_stale_ticket(number, stage=TicketStage.done) for number in range(3))
    )
    assert signals == [] and "stale:MCU" in fewer.flags
    later, signals = detect_next(fewer, now=NOW + 8 * DAY)
    assert get_keys(signals) == ["stale:MCU-90"]
    none, signals = detect_next(
        later, *(make_stale_ticket(number, stage=TicketStage.done) for number in range(12)), now=NOW + 8 * DAY
    )
    assert signals == [] and set(none.flags) == {"stale:MCU-90"}


def test_reports_a_grouped_ticket_alone_when_it_becomes_stale_again() -> None:
    seen, _ = detect_first(make_snapshot(*map(make_stale_ticket, range(12))))
    seen, signals = detect_next(seen, make_stale_ticket(3, updated_at=NOW))
    assert signals == [] and "stale:MCU-03" not in seen.flags
    _, signals = detect_next(seen, now=NOW + 10 * DAY)
    assert get_keys(signals) == ["stale:MCU-03"]


def test_reports_the_group_after_the_last_page() -> None:
    """A later partial page of a full read neither reports nor clears anything."""
    first, signals = detect_first(make_snapshot(*map(make_stale_ticket, range(6))), is_whole=False)
    assert signals == []
    seen, signals = detect_next(first, *map(make_stale_ticket, range(6, 12)), now=NOW)
    assert get_keys(signals) == ["stale:MCU"] and signals[0].summary.startswith("12 tickets")
    page = SyncPage(tickets=(make_stale_ticket(0),), checkpoint="c", is_reset=True, has_more=True)
    again, signals = detect_signals(seen, apply_page(seen, page, None, NOW), is_whole=False)
    assert signals == [] and set(again.flags) == set(seen.flags)


def test_backlog_summary_lists_the_grouped_stale_tickets() -> None:
    seen, _ = detect_first(make_snapshot(*map(make_stale_ticket, range(40))))
    writing = Writing(
        type="backlog_summary", previous=None, snapshot=seen, signals=(), raid_log=None, now=NOW
    )
    highlights = build_backlog_summary(writing, Thresholds())["highlights"]
    assert [each["flag"] for each in highlights] == ["stale"] * MAX_HIGHLIGHTS


async def test_writes_no_comment_for_a_grouped_signal(harness: Harness) -> None:
    project = await harness.create_project(autonomy_level="tactical")
    assert project.autonomy_level is Autonomy.tactical
    _, (many,) = detect_first(make_snapshot(*map(make_stale_ticket, range(40))))
    _, (one,) = detect_first(make_snapshot(make_stale_ticket(1)))
    assert propose(project, many) is None
    assert propose(project, one) is not None


async def test_old_backlog_is_one_event_even_when_the_snapshot_is_lost(harness: Harness) -> None:
    """A snapshot rebuilt from the events reports nothing again."""
    project = await harness.create_project(autonomy_level="monitoring")
    old = get_now(harness.clock) - 60 * DAY
    for number in range(60):
        harness.tracker.put(f"MCU-{number}", updated_at=old)
    await harness.run_cycle()
    assert await harness.signals(project) == ["stale:MCU"]
    lost = await kept.rebuild_from_events(harness.stores, project)
    tickets = {each.key: each for each, _ in harness.tracker.log}
    _, signals = detect_signals(
        lost, lost.model_copy(update={"tickets": tickets}), now=get_now(harness.clock)
    )
    assert signals == []


class CountingChanges(tuple[FieldChange, ...]):
    """Changes that count how often they are iterated."""

    walks = 0

    def __iter__(self) -> Iterator[FieldChange]:
        self.walks += 1
        return super().__iter__()


@pytest.mark.parametrize("stuck", [0, 1, 50])
def test_iterates_the_changes_once_for_any_number_of_blocked_tickets(stuck: int) -> None:
    tickets = [make_ticket(f"MCU-{number}", is_blocked=number < stuck, sprint="12") for number in range(50)]
    changes = CountingChanges(
        FieldChange(id=each.key, ticket=each.key, field="Sprint", before="", after="12", at=NOW)
        for each in tickets
    )
    _, signals = detect_signals(make_snapshot(), make_snapshot(*tickets, sprints=(SPRINT,)), changes)
    assert get_keys(signals).count("blocked:MCU-0") == (stuck > 0)
    assert changes.walks == 1
