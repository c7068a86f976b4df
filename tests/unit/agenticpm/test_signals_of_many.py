"""What was so before a project came under watch: one signal where it is much; and all of it found without going through
everything for each ticket."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agenticpm.domain.autonomy import propose
from agenticpm.domain.signals import detect
from agenticpm.domain.thresholds import Thresholds
from agenticpm.domain.tickets import (
    FieldChange,
    Signal,
    Snapshot,
    Stage,
    SyncPage,
    Ticket,
    Writing,
    apply_page,
)
from agenticpm.domain.writers.backlog_summary import HIGHLIGHTS_MAX, build_backlog_summary
from agenticpm.model import snapshots as kept
from agenticpm.model.entities import Autonomy
from agenticpm.model.events import get_now
from tests.unit.agenticpm.loop_play import Play, played
from tests.unit.agenticpm.sample_snapshots import DAY, NOW, SPRINT, snapshot, snapshots, ticket


def idle(number: int, **fields: Any) -> Ticket:
    return ticket(
        f"MCU-{number:02}", **{"stage": Stage.in_progress, "updated_at": NOW - (60 - number) * DAY} | fields
    )


def lacking(number: int, **fields: Any) -> Ticket:
    return ticket(f"MCU-{number:02}", **{"sprint": "12", "has_criteria": False} | fields)


def look(
    before: Snapshot,
    after: Snapshot,
    changes: Sequence[FieldChange] = (),
    *,
    now: datetime = NOW,
    most: int = 100,
    is_whole: bool = True,
    thresholds: Thresholds | None = None,
) -> tuple[Snapshot, list[Signal]]:
    return detect(
        before,
        after,
        changes,
        raid_log=None,
        now=now,
        thresholds=thresholds or Thresholds(),
        limit=most,
        is_complete=is_whole,
    )


def then(
    seen: Snapshot, *tickets: Ticket, now: datetime = NOW + DAY, **how: Any
) -> tuple[Snapshot, list[Signal]]:
    return look(seen, apply_page(seen, SyncPage(tickets=tickets, checkpoint="c"), None, now), now=now, **how)


def keys(signals: Sequence[Signal]) -> list[str]:
    return [each.key for each in signals]


# --- one signal ---------------------------------------------------------------------------------------------


def test_many_tickets_that_were_stale_before_the_first_look_are_one_signal_with_the_oldest_and_their_number() -> (
    None
):
    _, signals = look(snapshot(), snapshot(*map(idle, range(40))))
    assert keys(signals) == ["stale:MCU"]
    assert signals[0].summary == (
        "40 tickets are in progress and have not been updated for a long time: MCU-00, MCU-01, MCU-02, MCU-03, "
        "MCU-04, MCU-05, MCU-06, MCU-07, MCU-08, MCU-09 and 30 more"
    )
    assert [each.ticket for each in signals[0].evidence] == [*(f"MCU-{n:02}" for n in range(10)), None]
    assert (signals[0].evidence[-1].field, signals[0].evidence[-1].after) == ("tickets", "40")


def test_many_tickets_without_criteria_at_the_first_look_are_one_signal() -> None:
    after = snapshot(*map(lacking, range(11)), sprints=(SPRINT,))
    seen, signals = look(snapshot(), after)
    assert keys(signals) == ["missing_criteria:MCU"]
    assert "11 tickets are in a current or upcoming sprint" in signals[0].summary
    touched = [lacking(number, updated_at=NOW + DAY) for number in range(11)]
    assert then(seen, *touched)[1] == []
    _, signals = then(seen, lacking(50, updated_at=NOW + DAY))
    assert keys(signals) == ["missing_criteria:MCU-50"]


def test_as_many_as_a_person_can_look_at_are_told_one_by_one() -> None:
    _, signals = look(snapshot(), snapshot(*map(idle, range(10))))
    assert sorted(keys(signals)) == [f"stale:MCU-{number:02}" for number in range(10)]


def test_it_is_told_once_also_when_fewer_are_left_and_one_that_becomes_stale_later_is_told_alone() -> None:
    seen, _ = look(snapshot(), snapshot(*map(idle, range(12)), idle(90, updated_at=NOW - DAY)))
    assert then(seen)[1] == []
    fewer, signals = then(seen, *(idle(number, stage=Stage.done) for number in range(3)))
    assert signals == [] and "stale:MCU" in fewer.flags
    later, signals = then(fewer, now=NOW + 8 * DAY)
    assert keys(signals) == ["stale:MCU-90"]
    none, signals = then(later, *(idle(number, stage=Stage.done) for number in range(12)), now=NOW + 8 * DAY)
    assert signals == [] and set(none.flags) == {"stale:MCU-90"}


def test_one_of_many_that_was_touched_and_becomes_stale_again_is_told_alone() -> None:
    seen, _ = look(snapshot(), snapshot(*map(idle, range(12))))
    seen, signals = then(seen, idle(3, updated_at=NOW))
    assert signals == [] and "stale:MCU-03" not in seen.flags
    _, signals = then(seen, now=NOW + 10 * DAY)
    assert keys(signals) == ["stale:MCU-03"]


def test_what_was_so_before_is_told_when_all_pages_were_read() -> None:
    first, signals = look(snapshot(), snapshot(*map(idle, range(6))), is_whole=False)
    assert signals == []
    seen, signals = then(first, *map(idle, range(6, 12)), now=NOW)
    assert keys(signals) == ["stale:MCU"] and signals[0].summary.startswith("12 tickets")
    page = SyncPage(tickets=(idle(0),), checkpoint="c", is_reset=True, has_more=True)
    again, signals = look(seen, apply_page(seen, page, None, NOW), is_whole=False)
    assert signals == [] and set(again.flags) == set(seen.flags)


def test_the_artefacts_still_list_the_tickets() -> None:
    seen, _ = look(snapshot(), snapshot(*map(idle, range(40))))
    writing = Writing(
        type="backlog_summary", previous=None, snapshot=seen, signals=(), raid_log=None, now=NOW
    )
    highlights = build_backlog_summary(writing, Thresholds())["highlights"]
    assert [each["flag"] for each in highlights] == ["stale"] * HIGHLIGHTS_MAX


def test_no_comment_is_written_for_a_signal_of_many_tickets() -> None:
    async def story(play: Play) -> None:
        project = await play.project(autonomy_level="tactical")
        assert project.autonomy_level is Autonomy.tactical
        _, (many,) = look(snapshot(), snapshot(*map(idle, range(40))))
        _, (one,) = look(snapshot(), snapshot(idle(1)))
        assert propose(project, many) is None
        assert propose(project, one) is not None

    played(story)


def test_a_backlog_of_old_tickets_is_one_event_and_still_one_when_the_snapshot_is_lost() -> None:
    async def story(play: Play) -> None:
        project = await play.project(autonomy_level="monitoring")
        old = get_now(play.clock) - 60 * DAY
        for number in range(60):
            play.tracker.put(f"MCU-{number}", updated_at=old)
        await play.cycle()
        assert await play.signals(project) == ["stale:MCU"]
        lost = await kept.rebuild_from_events(play.stores, project)
        tickets = {each.key: each for each, _ in play.tracker.log}
        _, signals = look(lost, lost.model_copy(update={"tickets": tickets}), now=get_now(play.clock))
        assert signals == []

    played(story)


@settings(max_examples=60, deadline=None)
@given(st.data(), snapshots(), snapshots(), st.integers(1, 4), st.integers(1, 3))
def test_called_again_it_tells_exactly_the_rest_where_many_are_one_too(
    data: st.DataObject, earlier: Snapshot, later: Snapshot, most: int, above: int
) -> None:
    thresholds = Thresholds(gathered_above=above)
    before, _ = look(
        snapshot(), earlier, now=NOW - DAY, most=data.draw(st.integers(0, 9)), thresholds=thresholds
    )
    after = before.model_copy(update={"tickets": later.tickets, "plan": later.plan})
    whole, wanted = look(before, after, thresholds=thresholds, most=1000)
    seen, found = after, list[Signal]()
    while some := (step := look(before, seen, thresholds=thresholds, most=most))[1]:
        seen = step[0]
        found += some
    assert keys(found) == keys(wanted)
    assert step[0].flags == whole.flags


# --- without going through everything for each --------------------------------------------------------------


class Counted(tuple[FieldChange, ...]):
    """Changes that count how often somebody goes through all of them."""

    walks = 0

    def __iter__(self) -> Iterator[FieldChange]:
        self.walks += 1
        return super().__iter__()


@pytest.mark.parametrize("stuck", [0, 1, 50])
def test_changes_are_gone_through_once_however_many_tickets_are_blocked(stuck: int) -> None:
    tickets = [ticket(f"MCU-{number}", is_blocked=number < stuck, sprint="12") for number in range(50)]
    changes = Counted(
        FieldChange(id=each.key, ticket=each.key, field="Sprint", before="", after="12", at=NOW)
        for each in tickets
    )
    _, signals = look(snapshot(), snapshot(*tickets, sprints=(SPRINT,)), changes)
    assert keys(signals).count("blocked:MCU-0") == (stuck > 0)
    assert changes.walks == 1
