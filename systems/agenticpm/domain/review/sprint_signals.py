"""Signals of sprints and milestones: what cannot be done in time, what was added, what should have ended."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Final

from agenticpm.domain.plain_text import format_amount, format_count, format_day
from agenticpm.domain.review.findings import ReviewKind, ReviewSignal, Severity
from agenticpm.domain.review.forecast import (
    MIN_FINISHED,
    Completion,
    back_test,
    forecast_chance,
    list_weeks,
)
from agenticpm.domain.review.observation import Observation
from agenticpm.domain.review.records import Version, WorkItem
from agenticpm.domain.tickets import Sprint

MIN_SPRINTS: Final = 2
MAX_SPRINTS: Final = 6
# On the last day little time is left for little work: less than this share of a sprint is no risk for it.
MIN_SHORTFALL: Final = Decimal("0.25")
MAX_NAMED: Final = 8


def find_sprint_signals(seen: Observation) -> Iterator[ReviewSignal]:
    """Yield the signals of the active sprints and of the milestones."""
    for sprint in seen.active_sprints:
        items = seen.project.list_in_sprint(sprint)
        if any(each.is_open for each in items) and sprint.ends_at is not None and sprint.ends_at < seen.now:
            yield _build_ended(seen, sprint, items)
        else:
            yield from _find_at_risk(seen, sprint, items)
        yield from _find_added(seen, sprint, items)
    yield from _find_milestones(seen)


def _build_ended(seen: Observation, sprint: Sprint, items: Sequence[WorkItem]) -> ReviewSignal:
    left = [each for each in items if each.is_open]
    evidence = (
        f"{sprint.name} ended on {format_day(sprint.ends_at or seen.now)} and is still active with "
        f"{format_count(len(left), 'open ticket')} ({_name(left)})"
    )
    return ReviewSignal(ReviewKind.sprint_ended, Severity.medium, None, evidence, sprint.name)


# --- capacity -----------------------------------------------------------------------------------------------


def measure(items: Sequence[WorkItem], in_points: bool) -> Decimal:
    """Sum the points of tickets without epics, or count the tickets."""
    counted = [each for each in items if not each.is_epic]
    if not in_points:
        return Decimal(len(counted))
    return sum((max(each.points or Decimal(0), Decimal(0)) for each in counted), Decimal(0))


def _find_at_risk(seen: Observation, sprint: Sprint, items: Sequence[WorkItem]) -> Iterator[ReviewSignal]:
    """Find a sprint whose open work is more than even the best past sprint did in the time that is left."""
    past = _list_past(seen, sprint)
    if len(past) < MIN_SPRINTS or sprint.starts_at is None or sprint.ends_at is None:
        return
    in_points = any(each.points for each in items)
    done = [measure(_list_done_in(seen, each), in_points) for each in past]
    remaining = measure([each for each in items if each.is_open], in_points)
    share = _get_share_left(sprint, seen.now)
    average = sum(done, Decimal(0)) / len(done)
    expected, best = average * share, max(done) * share
    if not average or remaining <= best or remaining < expected * seen.thresholds.sprint_overload:
        return
    if remaining - expected < average * MIN_SHORTFALL:
        return
    unit = "points" if in_points else "tickets"
    evidence = (
        f"{sprint.name} has {format_amount(remaining, unit)} open and {round(share * 100)} % of its time "
        "left; "
        f"the last {len(done)} sprints did {format_amount(average, unit)} on average, "
        f"so about {format_amount(expected, unit)} can be expected"
    )
    yield ReviewSignal(ReviewKind.sprint_at_risk, Severity.high, None, evidence, sprint.name)


def _list_past(seen: Observation, sprint: Sprint) -> list[Sprint]:
    """List the last closed sprints of the project, oldest first."""
    closed = [
        each
        for each in seen.project.sprints
        if each.state == "closed" and each.starts_at and each.id != sprint.id
    ]
    return sorted(closed, key=lambda each: each.starts_at or seen.now)[-MAX_SPRINTS:]


def _list_done_in(seen: Observation, sprint: Sprint) -> list[WorkItem]:
    """List the tickets of a closed sprint that were done by its end."""
    end = sprint.completed_at or sprint.ends_at or seen.now
    return [
        each
        for each in seen.project.list_in_sprint(sprint)
        if each.resolved_at is not None
        and (sprint.starts_at or each.resolved_at) <= each.resolved_at <= end + timedelta(hours=12)
    ]


def _get_share_left(sprint: Sprint, now: datetime) -> Decimal:
    """Return the share of the sprint's working days that is left, from 0 to 1."""
    if sprint.starts_at is None or sprint.ends_at is None:
        return Decimal(1)
    whole = _count_work_hours(sprint.starts_at, sprint.ends_at)
    left = _count_work_hours(max(now, sprint.starts_at), sprint.ends_at)
    return min(Decimal(left) / whole, Decimal(1)) if whole else Decimal(0)


def _count_work_hours(start: datetime, end: datetime) -> int:
    """Count the hours between two times without Saturdays and Sundays."""
    hours = max(0, int((end - start) / timedelta(hours=1)))
    return sum((start + timedelta(hours=each)).weekday() < 5 for each in range(min(hours, 24 * 120)))


# --- scope --------------------------------------------------------------------------------------------------


def _find_added(seen: Observation, sprint: Sprint, items: Sequence[WorkItem]) -> Iterator[ReviewSignal]:
    """Find substantial work that came into the sprint after its start, less what was taken out."""
    if sprint.starts_at is None:
        return
    limit = sprint.starts_at + timedelta(hours=seen.thresholds.planning_hours)
    counted = [each for each in items if not each.is_epic]
    added = [each for each in counted if _get_entry(each, sprint) > limit]
    in_points = any(each.points for each in counted)
    removed = measure(_list_removed(seen, sprint, limit), in_points)
    planned = measure([each for each in counted if each not in added], in_points) + removed
    more = measure(added, in_points)
    if not added or more - removed <= 0 or more - removed < planned * seen.thresholds.scope_share:
        return
    unit = "points" if in_points else "tickets"
    evidence = (
        f"{format_amount(more, unit)} ({_name(added)}) came into {sprint.name} after its start on "
        f"{format_day(sprint.starts_at)}, with {format_amount(planned, unit)} planned"
    )
    yield ReviewSignal(ReviewKind.scope_added, Severity.medium, None, evidence, sprint.name)


def _get_entry(item: WorkItem, sprint: Sprint) -> datetime:
    """Return when a ticket came into a sprint: by its changelog, or else when it was created."""
    entered = [
        each.at
        for each in item.changes
        if each.field == "sprint" and _enters(each.before, each.after, sprint)
    ]
    return entered[-1] if entered else item.created_at


def _enters(before: str, after: str, sprint: Sprint) -> bool:
    return sprint.name in _split(after) and sprint.name not in _split(before)


def _split(text: str) -> set[str]:
    return {each.strip() for each in text.split(",")} | {text}


def _list_removed(seen: Observation, sprint: Sprint, limit: datetime) -> list[WorkItem]:
    """List the tickets that were taken out of a sprint after its planning and are not in it now."""
    names = {sprint.id, sprint.name}
    return [
        item
        for item in seen.project.items
        if not names & set(item.sprints)
        and any(
            each.field == "sprint" and each.at > limit and _enters(each.after, each.before, sprint)
            for each in item.changes
        )
    ]


# --- milestones ---------------------------------------------------------------------------------------------


def _find_milestones(seen: Observation) -> Iterator[ReviewSignal]:
    """Find versions, and epics with a due date, that the past throughput does not reach."""
    done = [
        Completion(each.resolved_at, 1.0)
        for each in seen.project.items
        if each.resolved_at is not None and not each.is_epic and not each.is_subtask
    ]
    if len(done) < MIN_FINISHED:
        return
    for version, items in _list_versions(seen):
        yield from _find_late(seen, version.name, None, version.due, items, done)
    for epic in seen.open_items:
        if epic.is_epic and epic.due is not None:
            children = seen.project.list_children(epic.key)
            yield from _find_late(seen, epic.key, epic.key, epic.due, children, done)


def _list_versions(seen: Observation) -> Iterator[tuple[Version, list[WorkItem]]]:
    """Yield the unreleased versions with a date, and their tickets, or else those of its epics."""
    found: dict[str, tuple[Version, list[WorkItem]]] = {}
    for item in seen.project.items:
        for version in item.versions:
            if version.due is not None and not version.is_released:
                found.setdefault(version.name, (version, []))[1].append(item)
    for version, items in found.values():
        own = [each for each in items if not each.is_epic]
        below = [child for each in items if each.is_epic for child in seen.project.list_children(each.key)]
        yield version, own or below


def _find_late(
    seen: Observation,
    name: str,
    ticket: str | None,
    due: date | None,
    items: Sequence[WorkItem],
    done: Sequence[Completion],
) -> Iterator[ReviewSignal]:
    """Find a milestone that is past with open work, or that is unlikely to be reached."""
    left = [each for each in items if each.is_open and not each.is_epic and not each.is_subtask]
    if due is None or not left:
        return
    end = datetime.combine(due, time(23, 59), seen.now.tzinfo or UTC)
    chance = forecast_chance(list_weeks(done, seen.now), len(left), end - seen.now) if end > seen.now else 0.0
    if chance is None or chance >= float(seen.thresholds.milestone_chance):
        return
    test = back_test(
        done,
        [
            (each.starts_at, each.ends_at)
            for each in seen.project.sprints
            if each.state == "closed" and each.starts_at and each.ends_at
        ],
    )
    checked = (
        f"; on finished sprints the forecast's range held in {test.hits} of {test.periods}"
        if test.periods
        else ""
    )
    evidence = (
        f"{name} is due on {due.isoformat()} with {format_count(len(left), 'open ticket')}; at the pace of "
        f"the last weeks the chance to finish is {round(chance * 100)} %{checked}"
    )
    # A release is promised to others; an epic's date is the team's own.
    is_near = (due - seen.today).days <= seen.thresholds.near_milestone_days
    severity = Severity.critical if is_near and ticket is None else Severity.high
    yield ReviewSignal(ReviewKind.milestone_at_risk, severity, ticket, evidence, name)


def _name(items: Sequence[WorkItem]) -> str:
    keys = [each.key for each in items]
    more = f" and {len(keys) - MAX_NAMED} more" if len(keys) > MAX_NAMED else ""
    return ", ".join(keys[:MAX_NAMED]) + more
