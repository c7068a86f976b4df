"""Rules for the delivery state: overall status, sprint, milestones, blockers, key metrics and next actions.

A blocker keeps its id while its ticket is blocked, and ids of the previous state are not reused. Ids are
valid in this state only: when no blocker is open, numbering restarts. Items that need a lasting id are in the
RAID log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from agenticpm.domain.conditions import (
    MilestoneOutlook,
    SprintScope,
    compute_outlooks,
    compute_scope,
    find_missing_criteria,
    find_running_sprint,
    is_stale,
    is_stuck,
)
from agenticpm.domain.contents import DeliveryState, RaidLog, format_time, iter_free_ids, parse_as
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
from agenticpm.domain.tickets import Priority, Sprint, Ticket, TicketStage, Writing
from agenticpm.domain.trends import (
    CycleTime,
    Trend,
    Velocity,
    compute_cycle_time,
    compute_velocity,
    has_points,
    select_sprint_tickets,
    sum_work,
)

MAX_BLOCKERS: Final = 100
MAX_MILESTONES: Final = 50
MAX_NEXT_ACTIONS: Final = 10

_SEVERITIES: Final = {
    Priority.critical: "high",
    Priority.high: "high",
    Priority.medium: "medium",
    Priority.low: "low",
}


@dataclass(frozen=True, slots=True)
class Facts:
    """The computed facts that the delivery state is built from."""

    writing: Writing
    thresholds: Thresholds
    raid_log: RaidLog
    sprint: Sprint | None
    progress: Mapping[str, Decimal]
    blocked: Sequence[Ticket]
    outlooks: Sequence[MilestoneOutlook]
    velocity: Velocity
    cycle_time: CycleTime
    scope: SprintScope | None

    def has_milestone(self, status: str) -> bool:
        """Return whether a milestone has this status."""
        return any(each.status == status for each in self.outlooks)

    def has_grown(self) -> bool:
        """Return whether the running sprint's added work reached the scope threshold."""
        return self.scope is not None and self.scope.share >= self.thresholds.scope_share

    def has_open(self, severity: str) -> bool:
        """Return whether the RAID log has an open or mitigating item of this severity."""
        return any(each.is_active and each.severity == severity for each in self.raid_log.items)


# The overall status is the colour of the first rule that holds, else green. The summary lists the reasons of
# all rules that hold.
STATUS_RULES: Final[tuple[tuple[str, str, Callable[[Facts], bool]], ...]] = (
    ("red", "a milestone is overdue", lambda facts: facts.has_milestone("delayed")),
    ("red", "something critical is open in the RAID log", lambda facts: facts.has_open("critical")),
    ("red", "a third of the sprint or more is blocked", lambda facts: _is_mostly_blocked(facts.progress)),
    ("amber", "a milestone is at risk", lambda facts: facts.has_milestone("at_risk")),
    ("amber", "work is blocked", lambda facts: bool(facts.blocked)),
    ("amber", "something of high severity is open in the RAID log", lambda facts: facts.has_open("high")),
    ("amber", "velocity is falling", lambda facts: facts.velocity.trend is Trend.decreasing),
    ("amber", "the sprint has grown since it began", Facts.has_grown),
)


def build_delivery_state(writing: Writing, thresholds: Thresholds) -> dict[str, Any]:
    """Build the next content of the delivery state."""
    facts = _collect_facts(writing, thresholds)
    blockers = _build_blockers(facts)
    reasons = [(colour, reason) for colour, reason, holds in STATUS_RULES if holds(facts)]
    colour = reasons[0][0] if reasons else "green"
    return {
        "overall_status": colour,
        "status_summary": _build_summary(facts, colour, [reason for _, reason in reasons], len(blockers)),
        "current_sprint": _build_current_sprint(facts),
        "milestones": [_build_milestone(each) for each in facts.outlooks[:MAX_MILESTONES]],
        "blockers": blockers,
        "key_metrics": {
            "velocity_trend": str(facts.velocity.trend),
            "avg_cycle_time_days": facts.cycle_time.average,
            "open_blockers": len(blockers),
            "active_risks": facts.raid_log.active_risks,
        },
        "next_actions": list(dict.fromkeys(_iterate_next_actions(facts)))[:MAX_NEXT_ACTIONS],
    }


def _collect_facts(writing: Writing, thresholds: Thresholds) -> Facts:
    """Compute the facts from the snapshot and the RAID log, with tickets by priority."""
    snapshot, now = writing.snapshot, writing.now
    tickets = sorted(snapshot.tickets.values(), key=lambda each: (_get_rank(each), each.key))
    sprint = find_running_sprint(snapshot.plan)
    return Facts(
        writing=writing,
        thresholds=thresholds,
        raid_log=parse_as(RaidLog, writing.raid_log or {"items": []}),
        sprint=sprint,
        progress=_compute_progress(select_sprint_tickets(sprint, tickets)) if sprint else {},
        blocked=list(filter(is_stuck, tickets)),
        outlooks=compute_outlooks(snapshot, now, thresholds),
        velocity=compute_velocity(snapshot, now, thresholds),
        cycle_time=compute_cycle_time(tickets, thresholds),
        scope=compute_scope(snapshot, thresholds),
    )


def _get_rank(ticket: Ticket) -> int:
    """Return the priority as a number: 0 is the most urgent."""
    return list(Priority).index(ticket.priority)


def _compute_progress(tickets: Sequence[Ticket]) -> dict[str, Decimal]:
    """Return the progress in points if a ticket of the sprint has points, else in tickets.

    Each ticket counts once.
    """
    in_points = has_points(tickets)
    return {
        "total_points": sum_work(tickets, in_points),
        "completed_points": sum_work((each for each in tickets if each.stage is TicketStage.done), in_points),
        "in_progress_points": sum_work(
            (each for each in tickets if each.stage is TicketStage.in_progress and not each.is_blocked),
            in_points,
        ),
        "blocked_points": sum_work(filter(is_stuck, tickets), in_points),
    }


def _is_mostly_blocked(progress: Mapping[str, Decimal]) -> bool:
    """Return whether a third of the sprint's work or more is blocked."""
    return bool(progress) and 0 < progress["total_points"] <= progress["blocked_points"] * 3


# --- its parts ----------------------------------------------------------------------------------------------


def _build_current_sprint(facts: Facts) -> dict[str, Any] | None:
    """Build the sprint's part, or None without one. An end before the start is left out."""
    if (sprint := facts.sprint) is None:
        return None
    start, end = sprint.starts_at, sprint.ends_at
    is_odd = start is not None and end is not None and end < start
    return {
        "name": to_name(sprint.name),
        "start_date": format_time(start) if start else None,
        "end_date": format_time(end) if end and not is_odd else None,
        "goal": to_line(sprint.goal, MAX_DETAIL_CHARS),
        "progress": dict(facts.progress),
    }


def _build_milestone(outlook: MilestoneOutlook) -> dict[str, Any]:
    """Build a milestone; its notes are the tracker's and ours."""
    milestone = outlook.milestone
    own = to_line(milestone.notes, MAX_DETAIL_CHARS)
    open_work = f"{format_amount(outlook.remaining, outlook.unit)} open" if outlook.remaining else ""
    late = "more than the present pace can do by then" if outlook.news_key == "at_risk" else ""
    move = outlook.moved
    moved = "" if move is None else f"Moved from {format_day(move.before)} to {format_day(move.after)}"
    ours = ", ".join(filter(None, (moved, open_work, late)))
    return {
        "name": to_name(milestone.name),
        "due_date": format_time(milestone.due_at) if milestone.due_at else None,
        "status": outlook.status,
        "notes": ". ".join(filter(None, (own.removesuffix("."), ours))),
    }


def _build_blockers(facts: Facts) -> list[dict[str, Any]]:
    """Return at most 100 blockers by id.

    A blocker keeps its id and date while its ticket is blocked; one without a ticket was added by a person
    and stays.
    """
    previous = facts.writing.previous
    before = parse_as(DeliveryState, previous).blockers if previous else []
    known = {each.source_ticket: each for each in reversed(before) if each.source_ticket is not None}
    own = [each.model_dump() for each in before if each.source_ticket is None]
    kept = [
        _build_blocker(each, known[each.key].id, known[each.key].raised_date)
        for each in facts.blocked
        if each.key in known
    ]
    ids = iter_free_ids("B", [each.id for each in before])
    fresh = [each for each in facts.blocked if each.key not in known]
    added = [_build_blocker(each, next(ids), _get_raised_time(facts, each)) for each in fresh]
    listed = (own + kept + added)[:MAX_BLOCKERS]
    return sorted(listed, key=lambda each: int(each["id"][1:]))


def _build_blocker(ticket: Ticket, id: str, raised: datetime) -> dict[str, Any]:
    title, why = to_line(ticket.title), to_line(ticket.blocked_reason, MAX_DETAIL_CHARS)
    return {
        "id": id,
        "description": ": ".join(filter(None, (title, why))) or to_name(ticket.key),
        "owner": to_line(ticket.assignee) or None,
        "raised_date": format_time(raised),
        "severity": _SEVERITIES[ticket.priority],
        "source_ticket": ticket.key,
    }


def _get_raised_time(facts: Facts, ticket: Ticket) -> datetime:
    """Return since when the ticket is blocked, or when it was last updated; never later than now."""
    return min(facts.writing.snapshot.blocked_since.get(ticket.key, ticket.updated_at), facts.writing.now)


def _build_summary(facts: Facts, colour: str, reasons: Sequence[str], blockers: int) -> str:
    """Build the summary: status with reasons, sprint progress, numbers of blockers and risks, velocity."""
    sentences = [
        f"{colour.capitalize()}: {', '.join(reasons)}" if reasons else "Green: nothing is against the plan"
    ]
    if facts.sprint is not None:
        numbers = {name: format_number(value) for name, value in facts.progress.items()}
        unit = (
            "points"
            if has_points(select_sprint_tickets(facts.sprint, facts.writing.snapshot.tickets.values()))
            else "tickets"
        )
        sentences.append(
            f"{to_name(facts.sprint.name)}: {numbers['completed_points']} of "
            f"{format_amount(facts.progress['total_points'], unit)} done, "
            f"{numbers['in_progress_points']} in progress, {numbers['blocked_points']} blocked"
        )
    else:
        sentences.append("No sprint is running")
    sentences.append(
        f"{format_count(blockers, 'blocker')} and {format_count(facts.raid_log.active_risks, 'active risk')}"
    )
    sentences.append(f"Velocity is {facts.velocity.trend}")
    return ". ".join(sentences) + "."


def _iterate_next_actions(facts: Facts) -> Iterator[str]:
    """Yield the actions, most urgent first. Each names its ticket, milestone or risk."""
    for outlook in facts.outlooks:
        if outlook.status == "delayed":
            yield f"Agree on a new date for {to_name(outlook.milestone.name)}, or close it"
    for ticket in facts.blocked:
        owner = to_line(ticket.assignee)
        yield f"Clear what blocks {to_name(ticket.key)}" + (
            f" with {owner}" if owner else " and give it an owner"
        )
    for item in facts.raid_log.items:
        if item.is_active and item.due_date is not None and item.due_date < facts.writing.now:
            yield f"Update {item.id} ({to_line(item.title)}): it was due on {format_day(item.due_date)}"
    for outlook in facts.outlooks:
        if outlook.is_only_moved and outlook.moved is not None:
            when = format_day(outlook.moved.after)
            yield f"Tell those who wait for {to_name(outlook.milestone.name)} that it is due on {when} now"
        elif outlook.status == "at_risk":
            yield f"Cut the scope of {to_name(outlook.milestone.name)}, or move its date"
    yield from _iterate_upkeep_actions(facts)


def _iterate_upkeep_actions(facts: Facts) -> Iterator[str]:
    """Yield the less urgent actions: scope, stale tickets, missing criteria."""
    snapshot, now = facts.writing.snapshot, facts.writing.now
    if facts.scope is not None and facts.has_grown():
        yield f"Decide what leaves {to_name(facts.scope.sprint.name)} for what came to it"
    for ticket in sorted(snapshot.tickets.values(), key=lambda each: (_get_rank(each), each.key)):
        if is_stale(ticket, now, facts.thresholds):
            yield f"Ask for news on {to_name(ticket.key)}"
    if lacking := {to_name(each.key) for each, _ in find_missing_criteria(snapshot, now, facts.thresholds)}:
        yield f"Write acceptance criteria for {', '.join(sorted(lacking)[:5])}"
