"""Signals of the review that the agent reports in its cycle, from the snapshot of the tracker.

A snapshot has neither comments nor the whole history, so that only those signals are found that need none.
Blocked and stale tickets, missing criteria, added scope and milestones have finders of their own.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final

from agenticpm.domain.review.findings import ReviewKind, ReviewSignal, Severity
from agenticpm.domain.review.observation import Observation
from agenticpm.domain.review.records import Person, ProjectRecord, WorkItem
from agenticpm.domain.review.sprint_signals import find_sprint_signals
from agenticpm.domain.review.ticket_signals import find_ticket_signals
from agenticpm.domain.thresholds import Thresholds
from agenticpm.domain.tickets import Evidence, Signal, SignalKind, Snapshot, Ticket

TICKET_KINDS: Final = (
    ReviewKind.overdue,
    ReviewKind.due_soon,
    ReviewKind.unassigned,
    ReviewKind.on_hold,
)
PROJECT_KINDS: Final = (ReviewKind.overloaded, ReviewKind.sprint_at_risk, ReviewKind.sprint_ended)
_SEVERITIES: Final = {
    Severity.low: "info",
    Severity.medium: "warning",
    Severity.high: "error",
    Severity.critical: "critical",
}


def find_review_signals(
    snapshot: Snapshot, now: datetime, thresholds: Thresholds, *, is_complete: bool
) -> Iterator[Signal]:
    """Yield the signals of a snapshot; those of people and sprints need all tickets (`is_complete`)."""
    seen = Observation(build_record(snapshot), now, thresholds)
    for each in find_ticket_signals(seen):
        if each.kind in TICKET_KINDS or (is_complete and each.kind in PROJECT_KINDS):
            yield _build_signal(each, snapshot)
    for each in find_sprint_signals(seen) if is_complete else ():
        if each.kind in PROJECT_KINDS:
            yield _build_signal(each, snapshot)


def build_record(snapshot: Snapshot) -> ProjectRecord:
    """Return the records that a snapshot has."""
    items = tuple(_build_item(each) for each in snapshot.tickets.values())
    return ProjectRecord(items, snapshot.plan.sprints)


def _build_item(ticket: Ticket) -> WorkItem:
    return WorkItem(
        key=ticket.key,
        title=ticket.title,
        type="",
        status=ticket.status,
        stage=ticket.stage,
        created_at=ticket.created_at,
        updated_at=ticket.updated_at,
        priority=ticket.priority.value,
        assignee=Person(ticket.assignee, ticket.assignee) if ticket.assignee else None,
        resolved_at=ticket.resolved_at,
        due=ticket.due_at.date() if ticket.due_at else None,
        points=ticket.points,
        sprints=(ticket.sprint,) if ticket.sprint else (),
    )


def _build_signal(found: ReviewSignal, snapshot: Snapshot) -> Signal:
    """Return a signal of the agent, with the ticket's own field as evidence."""
    ticket = snapshot.tickets.get(found.ticket or "")
    field, after = _get_field(found.kind, ticket)
    at = ticket.updated_at if ticket else None
    return Signal(
        kind=SignalKind(found.kind.value),
        subject=found.ticket or found.subject,
        severity=_SEVERITIES[found.severity],
        summary=found.evidence,
        evidence=(Evidence(ticket=found.ticket, field=field, after=after, at=at),),
    )


def _get_field(kind: ReviewKind, ticket: Ticket | None) -> tuple[str, str | None]:
    if ticket is None:
        return ("assignee" if kind is ReviewKind.overloaded else "sprint"), None
    if kind in (ReviewKind.overdue, ReviewKind.due_soon):
        return "due_at", ticket.due_at.date().isoformat() if ticket.due_at else None
    return ("priority", ticket.priority.value) if kind is ReviewKind.unassigned else ("status", ticket.status)
