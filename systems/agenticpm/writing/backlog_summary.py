"""The backlog summary by rules: what is open and what was done, counted once each, and what wants attention."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from agenticpm.contents import stated
from agenticpm.plain_text import DETAIL_CHARS_MAX, amount_of, day_of, line_of, many, name_of, number_of
from agenticpm.standing import (
    has_grown_much,
    is_stale,
    is_stuck,
    lacking_criteria,
    latecomers,
    running_sprint,
    scope_of_sprint,
)
from agenticpm.thresholds import Thresholds
from agenticpm.tickets import Priority, Snapshot, Sprint, Stage, Ticket, Writing
from agenticpm.trends import counts_in_points, points_of, tickets_of

HIGHLIGHTS_MAX: Final = 20
CANDIDATES_MAX: Final = 20
NAMED_MAX: Final = 10
# Where no sprint runs, what was done in the last days of so many counts as done lately.
DONE_DAYS: Final = 14


def backlog_summary(writing: Writing, thresholds: Thresholds) -> dict[str, Any]:
    snapshot, now = writing.snapshot, writing.now
    return {
        "source": snapshot.source,
        "last_synced": stated(snapshot.synced_at or now),
        "summary": _totals(snapshot, now),
        "highlights": _highlights(snapshot, now, thresholds),
        "refinement_candidates": _candidates(snapshot, now, thresholds),
        "scope_notes": _scope_notes(snapshot, thresholds),
    }


def _totals(snapshot: Snapshot, now: datetime) -> dict[str, Any]:
    """All that is open, and what was done in the running sprint. Each stands in one place of each count."""
    sprint = running_sprint(snapshot.plan)
    places = {
        key: _place(ticket, _is_recent(ticket, sprint, now)) for key, ticket in snapshot.tickets.items()
    }
    counted = {key: place for key, place in places.items() if place is not None}
    priorities = [snapshot.tickets[key].priority for key in counted]
    names = ("to_do", "in_progress", "done_this_sprint", "blocked")
    return {
        "total_items": len(counted),
        "by_status": {name: sum(place == name for place in counted.values()) for name in names},
        "by_priority": {str(each): priorities.count(each) for each in Priority},
    }


def _place(ticket: Ticket, is_recent: bool) -> str | None:
    if ticket.stage is Stage.done:
        return "done_this_sprint" if is_recent else None
    return "blocked" if ticket.is_blocked else str(ticket.stage)


def _is_recent(ticket: Ticket, sprint: Sprint | None, now: datetime) -> bool:
    if sprint is not None:
        return bool(tickets_of(sprint, [ticket]))
    return ticket.resolved_at is not None and now - ticket.resolved_at < timedelta(days=DONE_DAYS)


# --- what wants attention ----------------------------------------------------------------------------------------


def _highlights(snapshot: Snapshot, now: datetime, thresholds: Thresholds) -> list[dict[str, str]]:
    """The most important of each ticket: blocked before all others, then by priority."""
    tickets = sorted(snapshot.tickets.values(), key=lambda each: (_rank(each), each.key))
    found: dict[str, dict[str, str]] = {}
    for each in _flagged(snapshot, tickets, now, thresholds):
        found.setdefault(each["ticket_id"], each)
    return list(found.values())[:HIGHLIGHTS_MAX]


def _rank(ticket: Ticket) -> int:
    return list(Priority).index(ticket.priority)


def _flagged(
    snapshot: Snapshot, tickets: Sequence[Ticket], now: datetime, thresholds: Thresholds
) -> Iterator[dict[str, str]]:
    for each in filter(is_stuck, tickets):
        why = line_of(each.blocked_reason, DETAIL_CHARS_MAX) or "The tracker does not say by what"
        detail = f"{why.removesuffix('.')}. Last touched on {day_of(each.updated_at)}"
        yield _highlight(each, "blocked", detail, "Find out who can clear it")
    scope = scope_of_sprint(snapshot, thresholds)
    for each, was in scope.grown if scope else ():
        if has_grown_much(each, was, thresholds):
            detail = f"Grew from {number_of(was)} to {amount_of(points_of(each.points), 'points')} during the sprint"
            yield _highlight(each, "scope_creep", detail, "Split it, or agree on what leaves the sprint")
    for each in tickets:
        if is_stale(each, now, thresholds):
            detail = f"In progress, and untouched since {day_of(each.updated_at)}"
            yield _highlight(each, "stale", detail, _asking(each))
    for each, sprint in sorted(
        lacking_criteria(snapshot, now, thresholds), key=lambda one: (_rank(one[0]), one[0].key)
    ):
        detail = f"In {name_of(sprint.name)} without acceptance criteria"
        yield _highlight(each, "missing_criteria", detail, "Write its acceptance criteria")
    for each, entry in latecomers(snapshot, thresholds):
        detail = f"Came into the running sprint on {day_of(entry.at)}"
        yield _highlight(each, "new", detail, "Confirm that it belongs to this sprint")


def _asking(ticket: Ticket) -> str:
    owner = line_of(ticket.assignee)
    return f"Ask {owner} for news" if owner else "Give it an owner"


def _highlight(ticket: Ticket, flag: str, detail: str, action: str) -> dict[str, str]:
    return {
        "ticket_id": name_of(ticket.key),
        "title": line_of(ticket.title),
        "flag": flag,
        "detail": detail,
        "suggested_action": action,
    }


def _candidates(snapshot: Snapshot, now: datetime, thresholds: Thresholds) -> list[dict[str, str]]:
    """Open tickets that are not ready: those of a sprint that runs or is near first, then the urgent ones of the backlog."""
    planned = {each.key for each, _ in lacking_criteria(snapshot, now, thresholds)}
    in_points = counts_in_points(snapshot.tickets.values())
    found = []
    for ticket in snapshot.tickets.values():
        is_wanted = ticket.key in planned or ticket.priority in (Priority.critical, Priority.high)
        if ticket.stage is Stage.to_do and is_wanted and (issue := _issue(ticket, in_points)):
            found.append((ticket.key not in planned, _rank(ticket), ticket.key, ticket, issue))
    return [
        {"ticket_id": name_of(key), "title": line_of(ticket.title), "issue": issue}
        for _, _, key, ticket, issue in sorted(found, key=lambda one: one[:3])[:CANDIDATES_MAX]
    ]


def _issue(ticket: Ticket, in_points: bool) -> str:
    missing = ["acceptance criteria"] if not ticket.has_criteria else []
    if in_points and ticket.points is None:
        missing.append("an estimate")
    return f"Missing {' and '.join(missing)}" if missing else ""


def _scope_notes(snapshot: Snapshot, thresholds: Thresholds) -> str:
    scope = scope_of_sprint(snapshot, thresholds)
    if scope is None:
        return "No sprint is running."
    name = name_of(scope.sprint.name)
    if not scope.late and not scope.added:
        return f"Nothing came to {name} since it began."
    came = ", ".join(name_of(each.key) for each in scope.late[:NAMED_MAX])
    creeps = " (possible scope creep)" if scope.share >= thresholds.scope_share else ""
    return (
        f"{many(len(scope.late), 'ticket')} came into {name} after it began{': ' if came else ''}{came}; "
        f"{amount_of(scope.added, scope.unit)} on {number_of(scope.planned)} planned{creeps}."
    )
