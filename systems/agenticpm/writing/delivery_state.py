"""The delivery state by rules: how the project stands, its sprint, milestones, blockers, and what to do next.

A blocker keeps its id while it stands, and none of the state before is given anew. It is a line of this state and of no
other: once none is open, numbers begin again, and what is to be known for good has its id in the RAID log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from agenticpm.contents import DeliveryState, RaidLog, free_ids, parsed, stated
from agenticpm.plain_text import DETAIL_CHARS_MAX, amount_of, day_of, line_of, many, name_of, number_of
from agenticpm.standing import (
    Outlook,
    Scope,
    is_stale,
    is_stuck,
    lacking_criteria,
    outlooks,
    running_sprint,
    scope_of_sprint,
)
from agenticpm.thresholds import Thresholds
from agenticpm.tickets import Priority, Sprint, Stage, Ticket, Writing
from agenticpm.trends import (
    CycleTime,
    Trend,
    Velocity,
    counts_in_points,
    cycle_time,
    tickets_of,
    velocity,
    work,
)

BLOCKERS_MAX: Final = 100
MILESTONES_MAX: Final = 50
NEXT_ACTIONS_MAX: Final = 10

_SEVERITIES: Final = {
    Priority.critical: "high",
    Priority.high: "high",
    Priority.medium: "medium",
    Priority.low: "low",
}


@dataclass(frozen=True, slots=True)
class Facts:
    """All that the state is written from."""

    writing: Writing
    thresholds: Thresholds
    raid_log: RaidLog
    sprint: Sprint | None
    progress: Mapping[str, Decimal]
    stuck: Sequence[Ticket]
    outlooks: Sequence[Outlook]
    pace: Velocity
    taken: CycleTime
    scope: Scope | None

    def has_milestone(self, status: str) -> bool:
        return any(each.status == status for each in self.outlooks)

    def has_grown(self) -> bool:
        return self.scope is not None and self.scope.share >= self.thresholds.scope_share

    def has_open(self, severity: str) -> bool:
        return any(each.is_active and each.severity == severity for each in self.raid_log.items)


# How the project stands: the colour of the first rule that holds, and green where none does. The reasons of all that
# hold are told.
RULES: Final[tuple[tuple[str, str, Callable[[Facts], bool]], ...]] = (
    ("red", "a milestone is overdue", lambda facts: facts.has_milestone("delayed")),
    ("red", "something critical is open in the RAID log", lambda facts: facts.has_open("critical")),
    ("red", "a third of the sprint or more is blocked", lambda facts: _is_mostly_blocked(facts.progress)),
    ("amber", "a milestone is at risk", lambda facts: facts.has_milestone("at_risk")),
    ("amber", "work is blocked", lambda facts: bool(facts.stuck)),
    ("amber", "something of high severity is open in the RAID log", lambda facts: facts.has_open("high")),
    ("amber", "velocity is falling", lambda facts: facts.pace.trend is Trend.decreasing),
    ("amber", "the sprint has grown since it began", Facts.has_grown),
)


def delivery_state(writing: Writing, thresholds: Thresholds) -> dict[str, Any]:
    facts = _facts(writing, thresholds)
    blockers = _blockers(facts)
    reasons = [(colour, reason) for colour, reason, holds in RULES if holds(facts)]
    colour = reasons[0][0] if reasons else "green"
    return {
        "overall_status": colour,
        "status_summary": _summary(facts, colour, [reason for _, reason in reasons], len(blockers)),
        "current_sprint": _current_sprint(facts),
        "milestones": [_milestone(each) for each in facts.outlooks[:MILESTONES_MAX]],
        "blockers": blockers,
        "key_metrics": {
            "velocity_trend": str(facts.pace.trend),
            "avg_cycle_time_days": facts.taken.average,
            "open_blockers": len(blockers),
            "active_risks": facts.raid_log.active_risks,
        },
        "next_actions": list(dict.fromkeys(_next_actions(facts)))[:NEXT_ACTIONS_MAX],
    }


def _facts(writing: Writing, thresholds: Thresholds) -> Facts:
    snapshot, now = writing.snapshot, writing.now
    tickets = sorted(snapshot.tickets.values(), key=lambda each: (_rank(each), each.key))
    sprint = running_sprint(snapshot.plan)
    return Facts(
        writing=writing,
        thresholds=thresholds,
        raid_log=parsed(RaidLog, writing.raid_log or {"items": []}),
        sprint=sprint,
        progress=_progress(tickets_of(sprint, tickets)) if sprint else {},
        stuck=list(filter(is_stuck, tickets)),
        outlooks=outlooks(snapshot, now, thresholds),
        pace=velocity(snapshot, now, thresholds),
        taken=cycle_time(tickets, thresholds),
        scope=scope_of_sprint(snapshot, thresholds),
    )


def _rank(ticket: Ticket) -> int:
    return list(Priority).index(ticket.priority)


def _progress(tickets: Sequence[Ticket]) -> dict[str, Decimal]:
    """In points where a ticket of the sprint has them, otherwise in tickets. Each ticket counts once."""
    in_points = counts_in_points(tickets)
    return {
        "total_points": work(tickets, in_points),
        "completed_points": work((each for each in tickets if each.stage is Stage.done), in_points),
        "in_progress_points": work(
            (each for each in tickets if each.stage is Stage.in_progress and not each.is_blocked), in_points
        ),
        "blocked_points": work(filter(is_stuck, tickets), in_points),
    }


def _is_mostly_blocked(progress: Mapping[str, Decimal]) -> bool:
    return bool(progress) and 0 < progress["total_points"] <= progress["blocked_points"] * 3


# --- its parts ---------------------------------------------------------------------------------------------------


def _current_sprint(facts: Facts) -> dict[str, Any] | None:
    if (sprint := facts.sprint) is None:
        return None
    start, end = sprint.starts_at, sprint.ends_at
    is_odd = start is not None and end is not None and end < start
    return {
        "name": name_of(sprint.name),
        "start_date": stated(start) if start else None,
        "end_date": stated(end) if end and not is_odd else None,
        "goal": line_of(sprint.goal, DETAIL_CHARS_MAX),
        "progress": dict(facts.progress),
    }


def _milestone(outlook: Outlook) -> dict[str, Any]:
    milestone = outlook.milestone
    own = line_of(milestone.notes, DETAIL_CHARS_MAX)
    open_work = f"{amount_of(outlook.remaining, outlook.unit)} open" if outlook.remaining else ""
    late = "more than the present pace can do by then" if outlook.standing == "at_risk" else ""
    move = outlook.moved
    moved = "" if move is None else f"Moved from {day_of(move.before)} to {day_of(move.after)}"
    ours = ", ".join(filter(None, (moved, open_work, late)))
    return {
        "name": name_of(milestone.name),
        "due_date": stated(milestone.due_at) if milestone.due_at else None,
        "status": outlook.status,
        "notes": ". ".join(filter(None, (own.removesuffix("."), ours))),
    }


def _blockers(facts: Facts) -> list[dict[str, Any]]:
    """By id. One keeps its id and its date while its ticket is blocked; one of no ticket is somebody's own, and stays."""
    previous = facts.writing.previous
    before = parsed(DeliveryState, previous).blockers if previous else []
    known = {each.source_ticket: each for each in reversed(before) if each.source_ticket is not None}
    own = [each.model_dump() for each in before if each.source_ticket is None]
    kept = [
        _blocker(each, known[each.key].id, known[each.key].raised_date)
        for each in facts.stuck
        if each.key in known
    ]
    ids = free_ids("B", [each.id for each in before])
    fresh = [each for each in facts.stuck if each.key not in known]
    added = [_blocker(each, next(ids), _raised(facts, each)) for each in fresh]
    listed = (own + kept + added)[:BLOCKERS_MAX]
    return sorted(listed, key=lambda each: int(each["id"][1:]))


def _blocker(ticket: Ticket, id: str, raised: datetime) -> dict[str, Any]:
    title, why = line_of(ticket.title), line_of(ticket.blocked_reason, DETAIL_CHARS_MAX)
    return {
        "id": id,
        "description": ": ".join(filter(None, (title, why))) or name_of(ticket.key),
        "owner": line_of(ticket.assignee) or None,
        "raised_date": stated(raised),
        "severity": _SEVERITIES[ticket.priority],
        "source_ticket": ticket.key,
    }


def _raised(facts: Facts, ticket: Ticket) -> datetime:
    return min(facts.writing.snapshot.blocked_since.get(ticket.key, ticket.updated_at), facts.writing.now)


def _summary(facts: Facts, colour: str, reasons: Sequence[str], blockers: int) -> str:
    sentences = [
        f"{colour.capitalize()}: {', '.join(reasons)}"
        if reasons
        else "Green: nothing stands against the plan"
    ]
    if facts.sprint is not None:
        numbers = {name: number_of(value) for name, value in facts.progress.items()}
        unit = (
            "points"
            if counts_in_points(tickets_of(facts.sprint, facts.writing.snapshot.tickets.values()))
            else "tickets"
        )
        sentences.append(
            f"{name_of(facts.sprint.name)}: {numbers['completed_points']} of {amount_of(facts.progress['total_points'], unit)} done, "
            f"{numbers['in_progress_points']} in progress, {numbers['blocked_points']} blocked"
        )
    else:
        sentences.append("No sprint is running")
    sentences.append(f"{many(blockers, 'blocker')} and {many(facts.raid_log.active_risks, 'active risk')}")
    sentences.append(f"Velocity is {facts.pace.trend}")
    return ". ".join(sentences) + "."


def _next_actions(facts: Facts) -> Iterator[str]:
    """The most pressing first. Each names the ticket, the milestone or the risk that it is about."""
    for outlook in facts.outlooks:
        if outlook.status == "delayed":
            yield f"Agree on a new date for {name_of(outlook.milestone.name)}, or close it"
    for ticket in facts.stuck:
        owner = line_of(ticket.assignee)
        yield f"Clear what blocks {name_of(ticket.key)}" + (
            f" with {owner}" if owner else " and give it an owner"
        )
    for item in facts.raid_log.items:
        if item.is_active and item.due_date is not None and item.due_date < facts.writing.now:
            yield f"Update {item.id} ({line_of(item.title)}): it was due on {day_of(item.due_date)}"
    for outlook in facts.outlooks:
        if outlook.is_only_moved and outlook.moved is not None:
            when = day_of(outlook.moved.after)
            yield f"Tell those who wait for {name_of(outlook.milestone.name)} that it is due on {when} now"
        elif outlook.status == "at_risk":
            yield f"Cut the scope of {name_of(outlook.milestone.name)}, or move its date"
    yield from _upkeep(facts)


def _upkeep(facts: Facts) -> Iterator[str]:
    snapshot, now = facts.writing.snapshot, facts.writing.now
    if facts.scope is not None and facts.has_grown():
        yield f"Decide what leaves {name_of(facts.scope.sprint.name)} for what came to it"
    for ticket in sorted(snapshot.tickets.values(), key=lambda each: (_rank(each), each.key)):
        if is_stale(ticket, now, facts.thresholds):
            yield f"Ask for news on {name_of(ticket.key)}"
    if lacking := {name_of(each.key) for each, _ in lacking_criteria(snapshot, now, facts.thresholds)}:
        yield f"Write acceptance criteria for {', '.join(sorted(lacking)[:5])}"
