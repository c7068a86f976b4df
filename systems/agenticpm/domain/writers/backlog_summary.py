"""Rules for the backlog summary: ticket counts, highlights, refinement candidates and scope notes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from agenticpm.domain.conditions import (
    compute_scope,
    find_latecomers,
    find_missing_criteria,
    find_running_sprint,
    has_grown_much,
    is_stale,
    is_stuck,
)
from agenticpm.domain.contents import format_time
from agenticpm.domain.plain_text import (
    MAX_DETAIL_CHARS,
    format_amount,
    format_count,
    format_day,
    format_number,
    to_line,
    to_name,
)
from agenticpm.domain.thresholds import Thresholds
from agenticpm.domain.tickets import Priority, Snapshot, Sprint, Ticket, TicketStage, Writing
from agenticpm.domain.trends import clamp_points, has_points, select_sprint_tickets

MAX_HIGHLIGHTS: Final = 20
MAX_CANDIDATES: Final = 20
MAX_NAMED: Final = 10
# Without a running sprint, tickets resolved within this many days count as recently done.
DONE_DAYS: Final = 14


def build_backlog_summary(writing: Writing, thresholds: Thresholds) -> dict[str, Any]:
    """Build the next content of the backlog summary."""
    snapshot, now = writing.snapshot, writing.now
    return {
        "source": snapshot.source,
        "last_synced": format_time(snapshot.synced_at or now),
        "summary": _build_totals(snapshot, now),
        "highlights": _build_highlights(snapshot, now, thresholds),
        "refinement_candidates": _build_candidates(snapshot, now, thresholds),
        "scope_notes": _build_scope_notes(snapshot, thresholds),
    }


def _build_totals(snapshot: Snapshot, now: datetime) -> dict[str, Any]:
    """Count the open and recently done tickets by status and by priority; each ticket once in each count."""
    sprint = find_running_sprint(snapshot.plan)
    places = {
        key: _get_status_group(ticket, _is_recent(ticket, sprint, now))
        for key, ticket in snapshot.tickets.items()
    }
    counted = {key: place for key, place in places.items() if place is not None}
    priorities = [snapshot.tickets[key].priority for key in counted]
    names = ("to_do", "in_progress", "done_this_sprint", "blocked")
    return {
        "total_items": len(counted),
        "by_status": {name: sum(place == name for place in counted.values()) for name in names},
        "by_priority": {str(each): priorities.count(each) for each in Priority},
    }


def _get_status_group(ticket: Ticket, is_recent: bool) -> str | None:
    """Return the name of the count that the ticket belongs to, or None if it was done earlier."""
    if ticket.stage is TicketStage.done:
        return "done_this_sprint" if is_recent else None
    return "blocked" if ticket.is_blocked else str(ticket.stage)


def _is_recent(ticket: Ticket, sprint: Sprint | None, now: datetime) -> bool:
    """Return whether a done ticket counts: of the running sprint, or else of the last 14 days."""
    if sprint is not None:
        return bool(select_sprint_tickets(sprint, [ticket]))
    return ticket.resolved_at is not None and now - ticket.resolved_at < timedelta(days=DONE_DAYS)


# --- highlights ---------------------------------------------------------------------------------------------


def _build_highlights(snapshot: Snapshot, now: datetime, thresholds: Thresholds) -> list[dict[str, str]]:
    """Return at most 20 highlights, one per ticket, by flag (blocked first) and then by priority."""
    tickets = sorted(snapshot.tickets.values(), key=lambda each: (_get_rank(each), each.key))
    found: dict[str, dict[str, str]] = {}
    for each in _iterate_highlights(snapshot, tickets, now, thresholds):
        found.setdefault(each["ticket_id"], each)
    return list(found.values())[:MAX_HIGHLIGHTS]


def _get_rank(ticket: Ticket) -> int:
    """Return the priority as a number: 0 is the most urgent."""
    return list(Priority).index(ticket.priority)


def _iterate_highlights(
    snapshot: Snapshot, tickets: Sequence[Ticket], now: datetime, thresholds: Thresholds
) -> Iterator[dict[str, str]]:
    """Yield all highlights: blocked, grown, stale, without criteria, new.

    A ticket may occur several times.
    """
    for each in filter(is_stuck, tickets):
        why = to_line(each.blocked_reason, MAX_DETAIL_CHARS) or "The tracker does not say by what"
        detail = f"{why.removesuffix('.')}. Last touched on {format_day(each.updated_at)}"
        yield _build_highlight(each, "blocked", detail, "Find out who can clear it")
    scope = compute_scope(snapshot, thresholds)
    for each, was in scope.grown if scope else ():
        if has_grown_much(each, was, thresholds):
            points = format_amount(clamp_points(each.points), "points")
            detail = f"Grew from {format_number(was)} to {points} during the sprint"
            yield _build_highlight(
                each, "scope_creep", detail, "Split it, or agree on what leaves the sprint"
            )
    for each in tickets:
        if is_stale(each, now, thresholds):
            detail = f"In progress, and untouched since {format_day(each.updated_at)}"
            yield _build_highlight(each, "stale", detail, _suggest_contact(each))
    for each, sprint in sorted(
        find_missing_criteria(snapshot, now, thresholds), key=lambda one: (_get_rank(one[0]), one[0].key)
    ):
        detail = f"In {to_name(sprint.name)} without acceptance criteria"
        yield _build_highlight(each, "missing_criteria", detail, "Write its acceptance criteria")
    for each, entry in find_latecomers(snapshot, thresholds):
        detail = f"Came into the running sprint on {format_day(entry.at)}"
        yield _build_highlight(each, "new", detail, "Confirm that it belongs to this sprint")


def _suggest_contact(ticket: Ticket) -> str:
    owner = to_line(ticket.assignee)
    return f"Ask {owner} for news" if owner else "Give it an owner"


def _build_highlight(ticket: Ticket, flag: str, detail: str, action: str) -> dict[str, str]:
    return {
        "ticket_id": to_name(ticket.key),
        "title": to_line(ticket.title),
        "flag": flag,
        "detail": detail,
        "suggested_action": action,
    }


def _build_candidates(snapshot: Snapshot, now: datetime, thresholds: Thresholds) -> list[dict[str, str]]:
    """Return at most 20 tickets to do that lack criteria or an estimate.

    Tickets of the running or next sprint come first, then urgent ones of the backlog.
    """
    planned = {each.key for each, _ in find_missing_criteria(snapshot, now, thresholds)}
    in_points = has_points(snapshot.tickets.values())
    found = []
    for ticket in snapshot.tickets.values():
        is_wanted = ticket.key in planned or ticket.priority in (Priority.critical, Priority.high)
        if ticket.stage is TicketStage.to_do and is_wanted and (issue := _describe_gaps(ticket, in_points)):
            found.append((ticket.key not in planned, _get_rank(ticket), ticket.key, ticket, issue))
    return [
        {"ticket_id": to_name(key), "title": to_line(ticket.title), "issue": issue}
        for _, _, key, ticket, issue in sorted(found, key=lambda one: one[:3])[:MAX_CANDIDATES]
    ]


def _describe_gaps(ticket: Ticket, in_points: bool) -> str:
    """Say what the ticket lacks, or return an empty text."""
    missing = ["acceptance criteria"] if not ticket.has_criteria else []
    if in_points and ticket.points is None:
        missing.append("an estimate")
    return f"Missing {' and '.join(missing)}" if missing else ""


def _build_scope_notes(snapshot: Snapshot, thresholds: Thresholds) -> str:
    """Describe the work added to the running sprint in one sentence."""
    scope = compute_scope(snapshot, thresholds)
    if scope is None:
        return "No sprint is running."
    name = to_name(scope.sprint.name)
    if not scope.late and not scope.added:
        return f"Nothing came to {name} since it began."
    came = ", ".join(to_name(each.key) for each in scope.late[:MAX_NAMED])
    creeps = " (possible scope creep)" if scope.share >= thresholds.scope_share else ""
    return (
        f"{format_count(len(scope.late), 'ticket')} came into {name} after it "
        f"began{': ' if came else ''}{came}; "
        f"{format_amount(scope.added, scope.unit)} on {format_number(scope.planned)} planned{creeps}."
    )
