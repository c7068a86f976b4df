"""Tests of signal detection: each is reported once, with evidence, most severe first, and no history."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agenticpm.domain.conditions import count_working_days, list_milestones
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
    SyncPage,
    Ticket,
    TicketStage,
    apply_page,
)
from tests.systems.agenticpm.unit.sample_snapshots import (
    DAY,
    NOW,
    SPRINT,
    START,
    detect_first,
    detect_next,
    detect_signals,
    get_keys,
    make_done_ticket,
    make_falling_velocity,
    make_item,
    make_snapshot,
    make_ticket,
    raid_logs,
    snapshots,
)

# --- tickets ------------------------------------------------------------------------------------------------


def test_reports_a_blocked_ticket_with_the_change_that_blocked_it() -> None:
    seen, _ = detect_first(make_snapshot(make_ticket()))
    change = FieldChange(id="7", ticket="MCU-1", field="Flagged", before="", after="Impediment", at=NOW - DAY)
    _, signals = detect_next(
        seen, make_ticket(is_blocked=True, blocked_reason="No\x00 design\nassets"), changes=[change]
    )
    assert get_keys(signals) == ["blocked:MCU-1"]
    assert signals[0].evidence == (
        Evidence(ticket="MCU-1", field="Flagged", before="", after="Impediment", at=NOW - DAY),
    )
    assert signals[0].summary == "MCU-1 (Work on MCU-1) is blocked: No design assets"


def test_blocking_status_is_evidence_too() -> None:
    change = FieldChange(
        id="7", ticket="MCU-1", field="status", before="Doing", after="Blocked", at=NOW - DAY
    )
    other = FieldChange(id="8", ticket="MCU-2", field="Flagged", after="Impediment", at=NOW)
    _, signals = detect_next(
        make_snapshot(make_ticket()), make_ticket(is_blocked=True, status="Blocked"), changes=[change, other]
    )
    assert signals[0].evidence[0] == Evidence(
        ticket="MCU-1", field="status", before="Doing", after="Blocked", at=NOW - DAY
    )


@pytest.mark.parametrize(
    ("link", "field"),
    [("This issue is blocked by MCU-3", "Link"), ("This issue relates to MCU-3", "is_blocked")],
)
def test_only_a_blocking_link_is_evidence(link: str, field: str) -> None:
    change = FieldChange(id="7", ticket="MCU-1", field="Link", after=link, at=NOW - DAY)
    _, signals = detect_next(make_snapshot(make_ticket()), make_ticket(is_blocked=True), changes=[change])
    assert signals[0].evidence[0].field == field


def test_both_snapshots_are_the_evidence_without_a_changelog() -> None:
    _, signals = detect_next(make_snapshot(make_ticket()), make_ticket(is_blocked=True))
    assert signals[0].evidence[0] == Evidence(
        ticket="MCU-1", field="is_blocked", before="false", after="true", at=NOW - DAY
    )


def test_reports_a_block_once_then_its_end_and_then_the_next_block() -> None:
    seen, signals = detect_first(make_snapshot(make_ticket(is_blocked=True)))
    assert get_keys(signals) == ["blocked:MCU-1"]
    seen, signals = detect_next(seen, now=NOW + DAY)
    assert signals == []
    seen, signals = detect_next(seen, make_ticket(), now=NOW + DAY)
    assert get_keys(signals) == ["unblocked:MCU-1"]
    assert signals[0].severity == "info"
    seen, signals = detect_next(seen, now=NOW + DAY)
    assert signals == []
    _, signals = detect_next(seen, make_ticket(is_blocked=True), now=NOW + DAY)
    assert get_keys(signals) == ["blocked:MCU-1"]


def test_done_ticket_is_no_longer_blocked() -> None:
    seen, _ = detect_first(make_snapshot(make_ticket(is_blocked=True)))
    _, signals = detect_next(seen, make_done_ticket("MCU-1", NOW, is_blocked=True))
    assert get_keys(signals) == ["unblocked:MCU-1"]
    assert "is done" in signals[0].summary


def test_severity_of_a_block_follows_the_tickets_priority() -> None:
    tickets = [make_ticket(f"MCU-{each}", is_blocked=True, priority=each) for each in Priority]
    _, signals = detect_first(make_snapshot(*tickets))
    blocked = [each for each in signals if each.kind is SignalKind.blocked]
    assert [each.severity for each in blocked] == ["critical", "error", "warning", "warning"]


def test_ticket_in_progress_is_stale_after_five_working_days_until_updated() -> None:
    idle = make_ticket(stage=TicketStage.in_progress, updated_at=NOW - 7 * DAY)
    seen, signals = detect_first(make_snapshot(idle))
    assert get_keys(signals) == ["stale:MCU-1"]
    assert signals[0].evidence[0].field == "updated_at"
    seen, signals = detect_next(seen, make_ticket(stage=TicketStage.in_progress, updated_at=NOW))
    assert signals == [] and seen.flags == {}
    assert (
        detect_first(make_snapshot(make_ticket(stage=TicketStage.in_progress, updated_at=NOW - 6 * DAY)))[1]
        == []
    )
    assert detect_first(make_snapshot(make_ticket(updated_at=NOW - 70 * DAY)))[1] == []


def test_weekends_are_not_working_days() -> None:
    friday = datetime(2026, 2, 6, 12, tzinfo=NOW.tzinfo)
    assert [count_working_days(friday, friday + n * DAY) for n in range(9)] == [0, 0, 0, 1, 2, 3, 4, 5, 5]
    assert count_working_days(friday, friday - DAY) == 0


def test_reports_missing_criteria_only_in_a_running_or_near_sprint() -> None:
    near = Sprint(id="13", name="Sprint 13", state="future", starts_at=NOW + 7 * DAY)
    far = Sprint(id="14", name="Sprint 14", state="future", starts_at=NOW + 8 * DAY)
    tickets = [make_ticket(f"MCU-{each}", sprint=each, has_criteria=False) for each in ("12", "13", "14")]
    finished = make_done_ticket("MCU-9", NOW, sprint="12", has_criteria=False)
    _, signals = detect_first(
        make_snapshot(
            *tickets, finished, make_ticket("MCU-8", has_criteria=False), sprints=(SPRINT, near, far)
        )
    )
    assert [(each.key, each.severity) for each in signals] == [
        ("missing_criteria:MCU-12", "warning"),
        ("missing_criteria:MCU-13", "info"),
    ]


# --- the running sprint -------------------------------------------------------------------------------------


def make_planned_sprint(*more: Ticket, **fields: Any) -> Snapshot:
    """Make a running sprint with four planned tickets of 5 points, and more tickets."""
    tickets = [make_ticket(f"MCU-{n}", sprint="12", points=Decimal(5)) for n in range(1, 5)]
    return make_snapshot(*tickets, *more, sprints=(SPRINT,), **fields)


def test_work_added_before_the_first_read_is_not_reported() -> None:
    seen, signals = detect_first(
        make_planned_sprint(make_ticket("MCU-9", sprint="12", created_at=START + 3 * DAY))
    )
    assert [each.kind for each in signals if each.kind is SignalKind.new] == []
    _, signals = detect_next(
        seen, make_ticket("MCU-10", sprint="12", created_at=START + 4 * DAY), now=NOW + DAY
    )
    assert "new:MCU-10" not in get_keys(signals)


def test_reports_a_ticket_created_in_the_running_sprint_once() -> None:
    seen, _ = detect_first(make_planned_sprint())
    seen, signals = detect_next(
        seen, make_ticket("MCU-9", sprint="12", created_at=NOW + DAY), now=NOW + 2 * DAY
    )
    assert get_keys(signals) == ["new:MCU-9"]
    assert detect_next(seen, now=NOW + 3 * DAY)[1] == []


def test_reports_a_ticket_moved_into_the_running_sprint_with_that_change() -> None:
    seen, _ = detect_first(make_planned_sprint(make_ticket("MCU-9", sprint="11")))
    change = FieldChange(
        id="1", ticket="MCU-9", field="Sprint", before="Sprint 11", after="Sprint 11, Sprint 12", at=NOW + DAY
    )
    _, signals = detect_next(seen, make_ticket("MCU-9", sprint="12"), changes=[change], now=NOW + 2 * DAY)
    assert get_keys(signals) == ["new:MCU-9"]
    assert signals[0].evidence[0].at == NOW + DAY
    _, signals = detect_next(
        seen, make_ticket("MCU-9", sprint="Sprint 12", updated_at=NOW + DAY), now=NOW + 2 * DAY
    )
    assert get_keys(signals) == ["new:MCU-9"]


def test_work_planned_before_the_sprint_is_not_new_when_it_starts() -> None:
    future = SPRINT.model_copy(update={"state": "future"})
    seen, _ = detect_first(make_snapshot(make_ticket(sprint="12"), sprints=(future,)), now=START - DAY)
    plan = seen.plan.model_copy(update={"sprints": (SPRINT,)})
    _, signals = detect_next(
        seen, make_ticket(sprint="12", updated_at=START + DAY), plan=plan, now=START + DAY
    )
    assert signals == []


def test_reports_scope_creep_with_the_added_tickets_from_a_fifth_on() -> None:
    seen, _ = detect_first(make_planned_sprint())
    seen, signals = detect_next(
        seen, make_ticket("MCU-8", sprint="12", points=Decimal(3), created_at=NOW + DAY), now=NOW + 2 * DAY
    )
    assert get_keys(signals) == ["new:MCU-8"]
    seen, signals = detect_next(
        seen, make_ticket("MCU-9", sprint="12", points=Decimal(1), created_at=NOW + DAY), now=NOW + 2 * DAY
    )
    assert get_keys(signals) == ["scope_creep:Sprint 12", "new:MCU-9"]
    assert signals[0].summary == "Sprint 12 began with 20 points and gained 4 points: MCU-8, MCU-9"
    assert [each.ticket for each in signals[0].evidence] == ["MCU-8", "MCU-9", None]
    assert (signals[0].evidence[-1].before, signals[0].evidence[-1].after) == ("20", "24")


def test_counts_scope_in_tickets_without_points() -> None:
    seen, _ = detect_first(
        make_snapshot(*(make_ticket(f"MCU-{n}", sprint="12") for n in range(5)), sprints=(SPRINT,))
    )
    _, signals = detect_next(seen, make_ticket("MCU-9", sprint="12", created_at=NOW + DAY), now=NOW + 2 * DAY)
    assert signals[0].summary == "Sprint 12 began with 5 tickets and gained 1 ticket: MCU-9"


def test_reports_points_that_grew_by_half_with_both_numbers() -> None:
    seen, _ = detect_first(make_planned_sprint())
    seen, signals = detect_next(seen, make_ticket("MCU-1", sprint="12", points=Decimal(7)))
    assert signals == []
    _, signals = detect_next(seen, make_ticket("MCU-1", sprint="12", points=Decimal(8)))
    assert get_keys(signals) == ["scope_creep:MCU-1"]
    assert (signals[0].evidence[0].before, signals[0].evidence[0].after) == ("5", "8")


def test_first_estimate_is_not_growth() -> None:
    seen, _ = detect_first(make_planned_sprint(make_ticket("MCU-7", sprint="12")))
    assert detect_next(seen, make_ticket("MCU-7", sprint="12", points=Decimal(8)))[1] == []


# --- milestones and trends ----------------------------------------------------------------------------------


def make_project_with_milestone(due: datetime, points: int = 10, **fields: Any) -> Snapshot:
    """Make a project with a pace of (20 + 10 + 10) / 3 points in 14 days, `points` to do, and a due date."""
    falling = make_falling_velocity()
    left = make_ticket("MCU-1", milestone="Beta", points=Decimal(points))
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
def test_milestone_slips_when_its_work_exceeds_the_time_left(due: datetime, severity: str | None) -> None:
    _, signals = detect_first(make_project_with_milestone(due))
    assert [each.severity for each in signals] == ([] if severity is None else [severity])
    assert all(
        each.key == "slipping_milestone:Beta" and each.evidence[0].field == "due_at" for each in signals
    )


def test_done_or_undated_milestone_does_not_slip() -> None:
    assert detect_first(make_project_with_milestone(NOW - DAY, is_done=True))[1] == []
    undated = make_project_with_milestone(NOW).plan.milestones[0].model_copy(update={"due_at": None})
    assert detect_first(make_snapshot(make_ticket(milestone="Beta"), milestones=(undated,)))[1] == []


def test_reports_a_milestone_when_it_may_be_late_and_again_when_it_is() -> None:
    seen, signals = detect_first(make_project_with_milestone(NOW + DAY))
    assert get_keys(signals) == ["slipping_milestone:Beta"] and "at the current pace" in signals[0].summary
    assert detect_next(seen, now=NOW + DAY / 2)[1] == []
    seen, signals = detect_next(seen, now=NOW + 2 * DAY)
    assert get_keys(signals) == ["slipping_milestone:Beta"] and "is not done" in signals[0].summary
    assert detect_next(seen, now=NOW + 3 * DAY)[1] == []


def test_reports_a_postponed_date_once_with_both_dates_but_not_an_earlier_date() -> None:
    def due(seen: Snapshot, at: datetime) -> tuple[Snapshot, list[Signal]]:
        plan = seen.plan.model_copy(update={"milestones": (Milestone(name="Beta", due_at=at),)})
        return detect_next(seen, plan=plan)

    seen, signals = detect_first(
        make_snapshot(make_ticket(), milestones=(Milestone(name="Beta", due_at=NOW + 60 * DAY),))
    )
    assert signals == []
    seen, signals = due(seen, NOW + 90 * DAY)
    assert get_keys(signals) == ["slipping_milestone:Beta"]
    assert (signals[0].evidence[0].before, signals[0].evidence[0].after) == ("2026-04-12", "2026-05-12")
    assert due(seen, NOW + 90 * DAY)[1] == []
    seen, signals = due(seen, NOW + 30 * DAY)
    assert signals == []
    assert get_keys(due(seen, NOW + 32 * DAY)[1]) == ["slipping_milestone:Beta"]


def test_reports_a_falling_velocity_and_its_end() -> None:
    seen, signals = detect_first(make_falling_velocity())
    assert get_keys(signals) == ["velocity_trend:MCU"]
    assert (signals[0].evidence[0].before, signals[0].evidence[0].after) == ("20", "10")
    assert detect_next(seen)[1] == []
    better = [make_done_ticket(f"MCU-{each}", NOW, sprint=each, points=Decimal(20)) for each in ("3", "4")]
    seen, signals = detect_next(seen, *better)
    assert [(each.key, each.severity) for each in signals] == [("velocity_trend:MCU", "info")]
    assert detect_next(seen)[1] == []


def test_reports_rising_cycle_time() -> None:
    ages = (1, 1, 1, 1, 5, 5, 5, 5)
    tickets = [
        make_done_ticket(f"MCU-{n}", NOW - (9 - n) * DAY, started_at=NOW - (9 - n + age) * DAY)
        for n, age in enumerate(ages)
    ]
    _, signals = detect_first(make_snapshot(*tickets))
    assert get_keys(signals) == ["cycle_time_trend:MCU"]
    assert signals[0].summary == "Tickets take longer: 5 days a ticket lately, 1 before"


# --- risks --------------------------------------------------------------------------------------------------


def test_reports_a_risk_when_it_is_nearly_due_and_when_it_is_overdue() -> None:
    log = {"items": [make_item(due_date="2026-02-13T00:00:00Z", severity="critical")]}
    seen, signals = detect_first(make_snapshot(), raid_log=log)
    assert [(each.key, each.severity) for each in signals] == [("risk_due:R001", "error")]
    seen, signals = detect_next(seen, raid_log=log, now=NOW + 3 * DAY)
    assert [(each.key, each.severity) for each in signals] == [("risk_overdue:R001", "critical")]
    assert signals[0].evidence[0].field == "due_date" and signals[0].evidence[0].after == "2026-02-13"
    assert detect_next(seen, raid_log=log, now=NOW + 4 * DAY)[1] == []
    assert detect_next(seen, now=NOW + 4 * DAY)[0].flags == seen.flags  # not inspected


def test_risk_needs_a_review_after_thirty_days_without_one() -> None:
    log = {"items": [make_item(last_reviewed="2026-01-12T09:00:00Z")]}
    seen, signals = detect_first(make_snapshot(), raid_log=log)
    assert get_keys(signals) == ["review_due:R001"]
    seen, signals = detect_next(seen, raid_log={"items": [make_item(last_reviewed="2026-02-11T00:00:00Z")]})
    assert signals == [] and seen.flags == {}


def test_does_not_report_accepted_or_closed_risks() -> None:
    accepted = make_item(status="accepted", due_date="2026-01-20T00:00:00Z")
    over = make_item(
        "R002",
        status="closed",
        due_date="2026-01-20T00:00:00Z",
        resolution="Gone",
        resolved_date="2026-01-20T00:00:00Z",
    )
    assert detect_first(make_snapshot(), raid_log={"items": [accepted, over]})[1] == []


# --- reported once, in any number of steps ------------------------------------------------------------------


def test_reports_the_most_severe_first_and_the_rest_in_the_next_call() -> None:
    tickets = [make_ticket(f"MCU-{n}", is_blocked=True, priority=Priority.low) for n in range(5)]
    urgent = make_ticket("MCU-9", is_blocked=True, priority=Priority.critical, assignee="Ann")
    after = make_snapshot(*tickets, urgent)
    seen, signals = detect_signals(make_snapshot(), after, most=2)
    assert get_keys(signals) == ["blocked:MCU-9", "blocked:MCU-0"]
    assert set(seen.flags) == set(get_keys(signals))
    seen, signals = detect_signals(make_snapshot(), seen, most=4)
    assert get_keys(signals) == [f"blocked:MCU-{n}" for n in range(1, 5)]


def test_reports_a_due_date_once_and_never_after_it_was_dismissed() -> None:
    late = make_snapshot(make_ticket(due_at=NOW - 3 * DAY))
    seen, signals = detect_first(late)
    assert get_keys(signals) == ["overdue:MCU-1"]
    assert detect_signals(make_snapshot(), seen)[1] == []
    assert detect_first(late, dismissed=("overdue:MCU-1",))[1] == []


@given(st.data(), snapshots(), snapshots(), raid_logs(), st.integers(1, 4), st.sampled_from([1, 2, 3, 10]))
def test_repeated_calls_report_exactly_the_rest_and_then_nothing(
    data: st.DataObject, earlier: Snapshot, later: Snapshot, raid_log: dict[str, Any], most: int, above: int
) -> None:
    """Calls with a small limit report the same signals as one call, whichever earlier snapshot they get.

    More than `above` old conditions of one kind are a group.
    """
    how: dict[str, Any] = {"raid_log": raid_log, "thresholds": Thresholds(gathered_above=above)}
    before, _ = detect_first(earlier, NOW - DAY, most=data.draw(st.integers(0, 99)), **how)
    after = before.model_copy(update={"tickets": later.tickets, "plan": later.plan})
    changes = (
        data.draw(st.lists(st.sampled_from(make_sprint_changes(later)), max_size=3)) if later.tickets else []
    )
    whole, wanted = detect_signals(before, after, changes, most=1000, **how)
    seen, found = after, list[Signal]()
    # After a crash, the stored snapshot is the previous one: that must not matter.
    base = before
    while True:
        seen, some = detect_signals(base, seen, changes, most=most, **how)
        base = data.draw(st.sampled_from([before, seen])) if found else before
        if not some:
            break
        assert len(some) <= most
        found += some
    assert get_keys(found) == get_keys(wanted)
    assert seen.flags == whole.flags and seen.promised == whole.promised and seen.entries == whole.entries


def make_sprint_changes(later: Snapshot) -> list[FieldChange]:
    """Make a change of the sprint and of the flag for each ticket."""
    return [
        FieldChange(id=key, ticket=key, field=field, before="x", after=each.sprint, at=NOW - DAY / 2)
        for key, each in later.tickets.items()
        for field in ("Sprint", "Flagged")
    ]


@given(snapshots(), raid_logs())
def test_signals_have_evidence_and_short_summaries_and_snapshots_round_trip(
    after: Snapshot, raid_log: dict[str, Any]
) -> None:
    seen, signals = detect_first(after, raid_log=raid_log, most=1000)
    assert all(each.evidence for each in signals)
    assert all(len(each.summary) < 600 and each.summary.isprintable() for each in signals)
    assert SignalKind.new not in [each.kind for each in signals]
    assert Snapshot.model_validate_json(seen.model_dump_json(exclude_defaults=True)) == seen


# --- pages --------------------------------------------------------------------------------------------------


def test_partial_snapshot_reports_no_trend_until_it_is_complete() -> None:
    falling = make_falling_velocity()
    part, signals = detect_first(falling, is_whole=False)
    assert signals == []
    assert get_keys(detect_next(part)[1]) == ["velocity_trend:MCU"]


def test_full_read_page_by_page_repeats_no_signal() -> None:
    stuck = [make_ticket(f"MCU-{n}", is_blocked=True) for n in range(4)]
    seen, signals = detect_first(make_snapshot(*stuck))
    assert len(signals) == 4
    page = SyncPage(tickets=tuple(stuck[:2]), checkpoint="c", is_reset=True, has_more=True)
    seen, signals = detect_signals(seen, apply_page(seen, page, None, NOW), is_whole=False)
    assert signals == []
    seen, signals = detect_next(seen, *stuck[2:])
    assert signals == []
    assert len(seen.flags) == 4


def test_forgets_the_flag_of_a_deleted_ticket_after_a_month() -> None:
    seen, _ = detect_first(make_snapshot(make_ticket(is_blocked=True)))
    gone = SyncPage(gone=("MCU-1",), checkpoint="c")
    seen, signals = detect_signals(seen, apply_page(seen, gone, None, NOW))
    assert signals == [] and set(seen.flags) == {"blocked:MCU-1"}
    assert detect_next(seen, now=NOW + 30 * DAY)[0].flags == {}


def test_remembers_how_a_ticket_entered_the_sprint_until_the_sprint_ends() -> None:
    seen, _ = detect_first(make_planned_sprint())
    assert seen.entries["MCU-1"] == Entry(sprint="12", at=START, points=Decimal(5))
    moved, _ = detect_next(seen, make_ticket("MCU-1", sprint=None))
    assert "MCU-1" not in moved.entries and "MCU-2" in moved.entries
    closed = seen.plan.model_copy(update={"sprints": (SPRINT.model_copy(update={"state": "closed"}),)})
    assert detect_next(seen, plan=closed)[0].entries == {}


def test_keeps_the_flag_of_anything_not_inspected() -> None:
    seen, _ = detect_first(make_falling_velocity())
    assert detect_next(seen, is_whole=False)[0].flags == seen.flags


def test_blocked_ticket_is_not_also_stale() -> None:
    idle = make_ticket(stage=TicketStage.in_progress, is_blocked=True, updated_at=NOW - 30 * DAY)
    assert get_keys(detect_first(make_snapshot(idle))[1]) == ["blocked:MCU-1"]


def test_moved_date_waits_until_it_fits_the_limit() -> None:
    seen, _ = detect_first(make_snapshot(milestones=(Milestone(name="Beta", due_at=NOW + 60 * DAY),)))
    plan = seen.plan.model_copy(update={"milestones": (Milestone(name="Beta", due_at=NOW + 90 * DAY),)})
    seen, signals = detect_next(seen, plan=plan, most=0)
    assert signals == []
    assert get_keys(detect_next(seen)[1]) == ["slipping_milestone:Beta"]


def test_reports_a_milestone_at_risk_again_when_its_date_moves() -> None:
    seen, _ = detect_first(make_project_with_milestone(NOW + DAY))
    plan = seen.plan.model_copy(update={"milestones": (Milestone(name="Beta", due_at=NOW + 2 * DAY),)})
    seen, signals = detect_next(seen, plan=plan)
    assert get_keys(signals) == ["slipping_milestone:Beta"]
    assert detect_next(seen)[1] == []


def test_earlier_of_two_milestones_with_one_name_counts() -> None:
    both = tuple(Milestone(name="Beta", due_at=NOW + days * DAY) for days in (9, -1))
    assert list_milestones(make_snapshot(milestones=both).plan) == [both[1]]
    seen, signals = detect_first(make_snapshot(milestones=both))
    assert get_keys(signals) == ["slipping_milestone:Beta"]
    assert detect_next(seen)[1] == []


def test_work_of_an_earlier_milestone_comes_before_that_of_a_later_one() -> None:
    seen = make_project_with_milestone(NOW + 11 * DAY)
    later = Milestone(name="Launch", due_at=NOW + 12 * DAY)
    plan = seen.plan.model_copy(update={"milestones": (*seen.plan.milestones, later)})
    more = {**seen.tickets, "MCU-2": make_ticket("MCU-2", milestone="Launch", points=Decimal(10))}
    _, signals = detect_first(seen.model_copy(update={"plan": plan, "tickets": more}))
    assert get_keys(signals) == ["slipping_milestone:Launch"]
