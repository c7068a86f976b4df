"""Signals: each told once, with its evidence, the most severe first, and nothing that is history."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agenticpm.domain.conditions import count_working_days, list_milestones
from agenticpm.domain.signals import detect
from agenticpm.domain.thresholds import Thresholds
from agenticpm.domain.tickets import (
    Entry,
    Evidence,
    FieldChange,
    Milestone,
    Priority,
    Signal,
    SignalKind,
    Snapshot,
    Sprint,
    Stage,
    SyncPage,
    Ticket,
    apply_page,
)
from tests.unit.agenticpm.sample_snapshots import (
    DAY,
    NOW,
    SPRINT,
    START,
    done,
    falling_velocity,
    item,
    raid_logs,
    snapshot,
    snapshots,
    ticket,
)


def told(
    before: Snapshot,
    after: Snapshot,
    changes: Sequence[FieldChange] = (),
    *,
    raid_log: Any = None,
    now: datetime = NOW,
    most: int = 30,
    is_whole: bool = True,
) -> tuple[Snapshot, list[Signal]]:
    return detect(
        before,
        after,
        changes,
        raid_log=raid_log,
        now=now,
        thresholds=Thresholds(),
        limit=most,
        is_complete=is_whole,
    )


def first(after: Snapshot, **how: Any) -> tuple[Snapshot, list[Signal]]:
    return told(snapshot(), after, **how)


def then(
    before: Snapshot, *tickets: Ticket, changes: Sequence[FieldChange] = (), now: datetime = NOW, **how: Any
) -> tuple[Snapshot, list[Signal]]:
    """The next page, with what changed."""
    page = SyncPage(tickets=tickets, changes=tuple(changes), checkpoint="c")
    return told(before, apply_page(before, page, how.pop("plan", None), now), changes, now=now, **how)


def kinds(signals: Sequence[Signal]) -> list[str]:
    return [each.key for each in signals]


# --- tickets ------------------------------------------------------------------------------------------------


def test_a_ticket_that_is_blocked_is_told_with_the_change_that_blocked_it() -> None:
    seen, _ = first(snapshot(ticket()))
    change = FieldChange(id="7", ticket="MCU-1", field="Flagged", before="", after="Impediment", at=NOW - DAY)
    _, signals = then(seen, ticket(is_blocked=True, blocked_reason="No\x00 design\nassets"), changes=[change])
    assert kinds(signals) == ["blocked:MCU-1"]
    assert signals[0].evidence == (
        Evidence(ticket="MCU-1", field="Flagged", before="", after="Impediment", at=NOW - DAY),
    )
    assert signals[0].summary == "MCU-1 (Work on MCU-1) is blocked: No design assets"


def test_a_status_that_blocks_is_evidence_too() -> None:
    change = FieldChange(
        id="7", ticket="MCU-1", field="status", before="Doing", after="Blocked", at=NOW - DAY
    )
    other = FieldChange(id="8", ticket="MCU-2", field="Flagged", after="Impediment", at=NOW)
    _, signals = then(snapshot(ticket()), ticket(is_blocked=True, status="Blocked"), changes=[change, other])
    assert signals[0].evidence[0] == Evidence(
        ticket="MCU-1", field="status", before="Doing", after="Blocked", at=NOW - DAY
    )


@pytest.mark.parametrize(
    ("link", "field"),
    [("This issue is blocked by MCU-3", "Link"), ("This issue relates to MCU-3", "is_blocked")],
)
def test_a_link_is_evidence_only_if_it_is_one_that_blocks(link: str, field: str) -> None:
    change = FieldChange(id="7", ticket="MCU-1", field="Link", after=link, at=NOW - DAY)
    _, signals = then(snapshot(ticket()), ticket(is_blocked=True), changes=[change])
    assert signals[0].evidence[0].field == field


def test_without_a_changelog_the_two_snapshots_are_the_evidence() -> None:
    _, signals = then(snapshot(ticket()), ticket(is_blocked=True))
    assert signals[0].evidence[0] == Evidence(
        ticket="MCU-1", field="is_blocked", before="false", after="true", at=NOW - DAY
    )


def test_a_blocked_ticket_is_told_once_then_its_end_and_then_again() -> None:
    seen, signals = first(snapshot(ticket(is_blocked=True)))
    assert kinds(signals) == ["blocked:MCU-1"]
    seen, signals = then(seen, now=NOW + DAY)
    assert signals == []
    seen, signals = then(seen, ticket(), now=NOW + DAY)
    assert kinds(signals) == ["unblocked:MCU-1"]
    assert signals[0].severity == "info"
    seen, signals = then(seen, now=NOW + DAY)
    assert signals == []
    _, signals = then(seen, ticket(is_blocked=True), now=NOW + DAY)
    assert kinds(signals) == ["blocked:MCU-1"]


def test_a_blocked_ticket_that_is_done_is_blocked_no_more() -> None:
    seen, _ = first(snapshot(ticket(is_blocked=True)))
    _, signals = then(seen, done("MCU-1", NOW, is_blocked=True))
    assert kinds(signals) == ["unblocked:MCU-1"]
    assert "is done" in signals[0].summary


def test_the_more_urgent_a_ticket_the_more_severe_its_block() -> None:
    tickets = [ticket(f"MCU-{each}", is_blocked=True, priority=each) for each in Priority]
    _, signals = first(snapshot(*tickets))
    assert [each.severity for each in signals] == ["critical", "error", "warning", "warning"]


def test_a_ticket_in_progress_is_stale_after_five_working_days_and_fresh_when_touched() -> None:
    idle = ticket(stage=Stage.in_progress, updated_at=NOW - 7 * DAY)
    seen, signals = first(snapshot(idle))
    assert kinds(signals) == ["stale:MCU-1"]
    assert signals[0].evidence[0].field == "updated_at"
    seen, signals = then(seen, ticket(stage=Stage.in_progress, updated_at=NOW))
    assert signals == [] and seen.flags == {}
    assert first(snapshot(ticket(stage=Stage.in_progress, updated_at=NOW - 6 * DAY)))[1] == []
    assert first(snapshot(ticket(updated_at=NOW - 70 * DAY)))[1] == []


def test_weekends_are_no_working_days() -> None:
    friday = datetime(2026, 2, 6, 12, tzinfo=NOW.tzinfo)
    assert [count_working_days(friday, friday + n * DAY) for n in range(9)] == [0, 0, 0, 1, 2, 3, 4, 5, 5]
    assert count_working_days(friday, friday - DAY) == 0


def test_a_ticket_without_criteria_is_told_in_a_running_sprint_or_a_near_one_only() -> None:
    near = Sprint(id="13", name="Sprint 13", state="future", starts_at=NOW + 7 * DAY)
    far = Sprint(id="14", name="Sprint 14", state="future", starts_at=NOW + 8 * DAY)
    tickets = [ticket(f"MCU-{each}", sprint=each, has_criteria=False) for each in ("12", "13", "14")]
    finished = done("MCU-9", NOW, sprint="12", has_criteria=False)
    _, signals = first(
        snapshot(*tickets, finished, ticket("MCU-8", has_criteria=False), sprints=(SPRINT, near, far))
    )
    assert [(each.key, each.severity) for each in signals] == [
        ("missing_criteria:MCU-12", "warning"),
        ("missing_criteria:MCU-13", "info"),
    ]


# --- the running sprint -------------------------------------------------------------------------------------


def planned(*more: Ticket, **fields: Any) -> Snapshot:
    tickets = [ticket(f"MCU-{n}", sprint="12", points=Decimal(5)) for n in range(1, 5)]
    return snapshot(*tickets, *more, sprints=(SPRINT,), **fields)


def test_work_that_came_in_before_the_project_was_watched_is_no_news() -> None:
    seen, signals = first(planned(ticket("MCU-9", sprint="12", created_at=START + 3 * DAY)))
    assert [each.kind for each in signals if each.kind is SignalKind.new] == []
    _, signals = then(seen, ticket("MCU-10", sprint="12", created_at=START + 4 * DAY), now=NOW + DAY)
    assert "new:MCU-10" not in kinds(signals)


def test_a_ticket_created_in_the_running_sprint_is_new_once() -> None:
    seen, _ = first(planned())
    seen, signals = then(seen, ticket("MCU-9", sprint="12", created_at=NOW + DAY), now=NOW + 2 * DAY)
    assert kinds(signals) == ["new:MCU-9"]
    assert then(seen, now=NOW + 3 * DAY)[1] == []


def test_a_ticket_that_was_moved_into_the_running_sprint_is_new_with_that_change() -> None:
    seen, _ = first(planned(ticket("MCU-9", sprint="11")))
    change = FieldChange(
        id="1", ticket="MCU-9", field="Sprint", before="Sprint 11", after="Sprint 11, Sprint 12", at=NOW + DAY
    )
    _, signals = then(seen, ticket("MCU-9", sprint="12"), changes=[change], now=NOW + 2 * DAY)
    assert kinds(signals) == ["new:MCU-9"]
    assert signals[0].evidence[0].at == NOW + DAY
    _, signals = then(seen, ticket("MCU-9", sprint="Sprint 12", updated_at=NOW + DAY), now=NOW + 2 * DAY)
    assert kinds(signals) == ["new:MCU-9"]


def test_what_was_planned_before_its_sprint_began_is_not_new_when_it_begins() -> None:
    future = SPRINT.model_copy(update={"state": "future"})
    seen, _ = first(snapshot(ticket(sprint="12"), sprints=(future,)), now=START - DAY)
    plan = seen.plan.model_copy(update={"sprints": (SPRINT,)})
    _, signals = then(seen, ticket(sprint="12", updated_at=START + DAY), plan=plan, now=START + DAY)
    assert signals == []


def test_scope_creeps_when_a_fifth_was_added_and_says_what() -> None:
    seen, _ = first(planned())
    seen, signals = then(
        seen, ticket("MCU-8", sprint="12", points=Decimal(3), created_at=NOW + DAY), now=NOW + 2 * DAY
    )
    assert kinds(signals) == ["new:MCU-8"]
    seen, signals = then(
        seen, ticket("MCU-9", sprint="12", points=Decimal(1), created_at=NOW + DAY), now=NOW + 2 * DAY
    )
    assert kinds(signals) == ["scope_creep:Sprint 12", "new:MCU-9"]
    assert signals[0].summary == "Sprint 12 began with 20 points and gained 4 points: MCU-8, MCU-9"
    assert [each.ticket for each in signals[0].evidence] == ["MCU-8", "MCU-9", None]
    assert (signals[0].evidence[-1].before, signals[0].evidence[-1].after) == ("20", "24")


def test_without_points_scope_is_counted_in_tickets() -> None:
    seen, _ = first(snapshot(*(ticket(f"MCU-{n}", sprint="12") for n in range(5)), sprints=(SPRINT,)))
    _, signals = then(seen, ticket("MCU-9", sprint="12", created_at=NOW + DAY), now=NOW + 2 * DAY)
    assert signals[0].summary == "Sprint 12 began with 5 tickets and gained 1 ticket: MCU-9"


def test_a_ticket_whose_points_grew_by_half_is_told_with_both_numbers() -> None:
    seen, _ = first(planned())
    seen, signals = then(seen, ticket("MCU-1", sprint="12", points=Decimal(7)))
    assert signals == []
    _, signals = then(seen, ticket("MCU-1", sprint="12", points=Decimal(8)))
    assert kinds(signals) == ["scope_creep:MCU-1"]
    assert (signals[0].evidence[0].before, signals[0].evidence[0].after) == ("5", "8")


def test_a_first_estimate_is_no_growth() -> None:
    seen, _ = first(planned(ticket("MCU-7", sprint="12")))
    assert then(seen, ticket("MCU-7", sprint="12", points=Decimal(8)))[1] == []


# --- milestones ---------------------------------------------------------------------------------------------


def with_milestone(due: datetime, points: int = 10, **fields: Any) -> Snapshot:
    """A pace of (20 + 10 + 10) / 3 points in 14 days, and so many points to do."""
    falling = falling_velocity()
    left = ticket("MCU-1", milestone="Beta", points=Decimal(points))
    milestone = Milestone(name="Beta", due_at=due, **fields)
    plan = falling.plan.model_copy(update={"milestones": (milestone,)})
    flags = {"velocity_trend:MCU": NOW}
    return falling.model_copy(
        update={"tickets": {**falling.tickets, "MCU-1": left}, "plan": plan, "flags": flags}
    )


@pytest.mark.parametrize(
    ("due", "severity"),
    [
        (NOW + 11 * DAY, None),  # 10 points take 10.5 days
        (NOW + 9 * DAY, "warning"),
        (NOW + 5 * DAY, "error"),
        (NOW - DAY, "error"),
        (NOW - 20 * DAY, "critical"),
    ],
)
def test_a_milestone_slips_when_its_work_takes_longer_than_the_time_left(
    due: datetime, severity: str | None
) -> None:
    _, signals = first(with_milestone(due))
    assert [each.severity for each in signals] == ([] if severity is None else [severity])
    assert all(
        each.key == "slipping_milestone:Beta" and each.evidence[0].field == "due_at" for each in signals
    )


def test_a_milestone_that_is_done_or_has_no_date_does_not_slip() -> None:
    assert first(with_milestone(NOW - DAY, is_done=True))[1] == []
    undated = with_milestone(NOW).plan.milestones[0].model_copy(update={"due_at": None})
    assert first(snapshot(ticket(milestone="Beta"), milestones=(undated,)))[1] == []


def test_a_milestone_is_told_when_it_may_be_late_and_again_when_it_is() -> None:
    seen, signals = first(with_milestone(NOW + DAY))
    assert kinds(signals) == ["slipping_milestone:Beta"] and "at the current pace" in signals[0].summary
    assert then(seen, now=NOW + DAY / 2)[1] == []
    seen, signals = then(seen, now=NOW + 2 * DAY)
    assert kinds(signals) == ["slipping_milestone:Beta"] and "is not done" in signals[0].summary
    assert then(seen, now=NOW + 3 * DAY)[1] == []


def test_a_date_that_moves_later_is_told_once_with_both_dates_and_one_that_moves_earlier_is_not() -> None:
    def due(seen: Snapshot, at: datetime) -> tuple[Snapshot, list[Signal]]:
        plan = seen.plan.model_copy(update={"milestones": (Milestone(name="Beta", due_at=at),)})
        return then(seen, plan=plan)

    seen, signals = first(snapshot(ticket(), milestones=(Milestone(name="Beta", due_at=NOW + 60 * DAY),)))
    assert signals == []
    seen, signals = due(seen, NOW + 90 * DAY)
    assert kinds(signals) == ["slipping_milestone:Beta"]
    assert (signals[0].evidence[0].before, signals[0].evidence[0].after) == ("2026-04-12", "2026-05-12")
    assert due(seen, NOW + 90 * DAY)[1] == []
    seen, signals = due(seen, NOW + 30 * DAY)
    assert signals == []
    assert kinds(due(seen, NOW + 32 * DAY)[1]) == ["slipping_milestone:Beta"]


# --- trends -------------------------------------------------------------------------------------------------


def test_a_falling_velocity_is_told_and_so_is_its_end() -> None:
    seen, signals = first(falling_velocity())
    assert kinds(signals) == ["velocity_trend:MCU"]
    assert (signals[0].evidence[0].before, signals[0].evidence[0].after) == ("20", "10")
    assert then(seen)[1] == []
    better = [done(f"MCU-{each}", NOW, sprint=each, points=Decimal(20)) for each in ("3", "4")]
    seen, signals = then(seen, *better)
    assert [(each.key, each.severity) for each in signals] == [("velocity_trend:MCU", "info")]
    assert then(seen)[1] == []


def test_tickets_that_take_longer_are_told() -> None:
    ages = (1, 1, 1, 1, 5, 5, 5, 5)
    tickets = [
        done(f"MCU-{n}", NOW - (9 - n) * DAY, started_at=NOW - (9 - n + age) * DAY)
        for n, age in enumerate(ages)
    ]
    _, signals = first(snapshot(*tickets))
    assert kinds(signals) == ["cycle_time_trend:MCU"]
    assert signals[0].summary == "Tickets take longer: 5 days a ticket lately, 1 before"


# --- risks --------------------------------------------------------------------------------------------------


def test_a_risk_is_told_when_it_is_nearly_due_and_when_it_is_overdue() -> None:
    log = {"items": [item(due_date="2026-02-13T00:00:00Z", severity="critical")]}
    seen, signals = first(snapshot(), raid_log=log)
    assert [(each.key, each.severity) for each in signals] == [("risk_due:R001", "error")]
    seen, signals = then(seen, raid_log=log, now=NOW + 3 * DAY)
    assert [(each.key, each.severity) for each in signals] == [("risk_overdue:R001", "critical")]
    assert signals[0].evidence[0].field == "due_date" and signals[0].evidence[0].after == "2026-02-13"
    assert then(seen, raid_log=log, now=NOW + 4 * DAY)[1] == []
    assert then(seen, now=NOW + 4 * DAY)[0].flags == seen.flags  # not looked at


def test_a_risk_that_nobody_reviewed_for_thirty_days_wants_a_review_until_it_has_one() -> None:
    log = {"items": [item(last_reviewed="2026-01-12T09:00:00Z")]}
    seen, signals = first(snapshot(), raid_log=log)
    assert kinds(signals) == ["review_due:R001"]
    seen, signals = then(seen, raid_log={"items": [item(last_reviewed="2026-02-11T00:00:00Z")]})
    assert signals == [] and seen.flags == {}


def test_what_is_accepted_or_over_is_not_told() -> None:
    accepted = item(status="accepted", due_date="2026-01-20T00:00:00Z")
    over = item(
        "R002",
        status="closed",
        due_date="2026-01-20T00:00:00Z",
        resolution="Gone",
        resolved_date="2026-01-20T00:00:00Z",
    )
    assert first(snapshot(), raid_log={"items": [accepted, over]})[1] == []


# --- told once, in any number of steps ----------------------------------------------------------------------


def test_the_most_severe_are_told_first_and_the_rest_in_the_next_call() -> None:
    tickets = [ticket(f"MCU-{n}", is_blocked=True, priority=Priority.low) for n in range(5)]
    urgent = ticket("MCU-9", is_blocked=True, priority=Priority.critical)
    after = snapshot(*tickets, urgent)
    seen, signals = told(snapshot(), after, most=2)
    assert kinds(signals) == ["blocked:MCU-9", "blocked:MCU-0"]
    assert set(seen.flags) == set(kinds(signals))
    seen, signals = told(snapshot(), seen, most=4)
    assert kinds(signals) == [f"blocked:MCU-{n}" for n in range(1, 5)]


@settings(max_examples=80, deadline=None)
@given(st.data(), snapshots(), snapshots(), raid_logs(), st.integers(1, 4))
def test_called_again_it_tells_exactly_the_rest_and_then_nothing(
    data: st.DataObject, earlier: Snapshot, later: Snapshot, raid_log: dict[str, Any], most: int
) -> None:
    before, _ = told(
        snapshot(), earlier, raid_log=raid_log, now=NOW - DAY, most=data.draw(st.integers(0, 99))
    )
    after = before.model_copy(update={"tickets": later.tickets, "plan": later.plan})
    changes = data.draw(st.lists(st.sampled_from(sprint_changes(later)), max_size=3)) if later.tickets else []
    whole, wanted = told(before, after, changes, raid_log=raid_log, most=1000)
    seen, found = after, list[Signal]()
    # After a crash the snapshot that was kept is the one before: that must make no difference.
    base = before
    while True:
        seen, some = told(base, seen, changes, raid_log=raid_log, most=most)
        base = data.draw(st.sampled_from([before, seen])) if found else before
        if not some:
            break
        assert len(some) <= most
        found += some
    assert [each.key for each in found] == [each.key for each in wanted]
    assert seen.flags == whole.flags and seen.promised == whole.promised and seen.entries == whole.entries


def sprint_changes(later: Snapshot) -> list[FieldChange]:
    return [
        FieldChange(id=key, ticket=key, field=field, before="x", after=each.sprint, at=NOW - DAY / 2)
        for key, each in later.tickets.items()
        for field in ("Sprint", "Flagged")
    ]


@settings(max_examples=60, deadline=None)
@given(snapshots(), raid_logs())
def test_every_signal_has_evidence_and_a_bounded_summary_and_the_snapshot_survives_json(
    after: Snapshot, raid_log: dict[str, Any]
) -> None:
    seen, signals = first(after, raid_log=raid_log, most=1000)
    assert all(each.evidence for each in signals)
    assert all(len(each.summary) < 600 and each.summary.isprintable() for each in signals)
    assert SignalKind.new not in [each.kind for each in signals]
    assert Snapshot.model_validate_json(seen.model_dump_json(exclude_defaults=True)) == seen


# --- pages --------------------------------------------------------------------------------------------------


def test_half_a_project_has_no_scope_and_no_pace() -> None:
    falling = falling_velocity()
    part, signals = first(falling, is_whole=False)
    assert signals == []
    assert kinds(then(part)[1]) == ["velocity_trend:MCU"]


def test_a_tracker_that_is_read_anew_page_by_page_tells_nothing_twice() -> None:
    stuck = [ticket(f"MCU-{n}", is_blocked=True) for n in range(4)]
    seen, signals = first(snapshot(*stuck))
    assert len(signals) == 4
    page = SyncPage(tickets=tuple(stuck[:2]), checkpoint="c", is_reset=True, has_more=True)
    seen, signals = told(seen, apply_page(seen, page, None, NOW), is_whole=False)
    assert signals == []
    seen, signals = then(seen, *stuck[2:])
    assert signals == []
    assert len(seen.flags) == 4


def test_the_flag_of_a_ticket_that_is_gone_is_forgotten_after_a_month() -> None:
    seen, _ = first(snapshot(ticket(is_blocked=True)))
    gone = SyncPage(gone=("MCU-1",), checkpoint="c")
    seen, signals = told(seen, apply_page(seen, gone, None, NOW))
    assert signals == [] and set(seen.flags) == {"blocked:MCU-1"}
    assert then(seen, now=NOW + 30 * DAY)[0].flags == {}


def test_how_a_ticket_came_into_the_sprint_is_kept_and_forgotten_with_the_sprint() -> None:
    seen, _ = first(planned())
    assert seen.entries["MCU-1"] == Entry(sprint="12", at=START, points=Decimal(5))
    moved, _ = then(seen, ticket("MCU-1", sprint=None))
    assert "MCU-1" not in moved.entries and "MCU-2" in moved.entries
    closed = seen.plan.model_copy(update={"sprints": (SPRINT.model_copy(update={"state": "closed"}),)})
    assert then(seen, plan=closed)[0].entries == {}


def test_what_was_not_looked_at_keeps_its_flag() -> None:
    seen, _ = first(falling_velocity())
    assert then(seen, is_whole=False)[0].flags == seen.flags


def test_a_blocked_ticket_is_not_told_as_stale_too() -> None:
    idle = ticket(stage=Stage.in_progress, is_blocked=True, updated_at=NOW - 30 * DAY)
    assert kinds(first(snapshot(idle))[1]) == ["blocked:MCU-1"]


def test_a_moved_date_waits_until_there_is_room_to_tell_it() -> None:
    seen, _ = first(snapshot(milestones=(Milestone(name="Beta", due_at=NOW + 60 * DAY),)))
    plan = seen.plan.model_copy(update={"milestones": (Milestone(name="Beta", due_at=NOW + 90 * DAY),)})
    seen, signals = then(seen, plan=plan, most=0)
    assert signals == []
    assert kinds(then(seen)[1]) == ["slipping_milestone:Beta"]


def test_a_milestone_that_was_told_as_at_risk_is_told_again_when_its_date_moves() -> None:
    seen, _ = first(with_milestone(NOW + DAY))
    plan = seen.plan.model_copy(update={"milestones": (Milestone(name="Beta", due_at=NOW + 2 * DAY),)})
    seen, signals = then(seen, plan=plan)
    assert kinds(signals) == ["slipping_milestone:Beta"]
    assert then(seen)[1] == []


def test_of_two_milestones_with_one_name_the_one_that_is_due_first_counts() -> None:
    both = tuple(Milestone(name="Beta", due_at=NOW + days * DAY) for days in (9, -1))
    assert list_milestones(snapshot(milestones=both).plan) == [both[1]]
    seen, signals = first(snapshot(milestones=both))
    assert kinds(signals) == ["slipping_milestone:Beta"]
    assert then(seen)[1] == []


def test_the_work_of_an_earlier_milestone_stands_before_that_of_a_later_one() -> None:
    seen = with_milestone(NOW + 11 * DAY)
    later = Milestone(name="Launch", due_at=NOW + 12 * DAY)
    plan = seen.plan.model_copy(update={"milestones": (*seen.plan.milestones, later)})
    more = {**seen.tickets, "MCU-2": ticket("MCU-2", milestone="Launch", points=Decimal(10))}
    _, signals = first(seen.model_copy(update={"plan": plan, "tickets": more}))
    assert kinds(signals) == ["slipping_milestone:Launch"]
