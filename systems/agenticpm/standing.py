"""What stands in a snapshot: which tickets are stuck, what came into the running sprint, whether milestones will be met.

Conditions only, all of them pure. `signals.py` tells when one begins, `writing/` writes down those that hold.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final

from agenticpm.thresholds import Thresholds
from agenticpm.tickets import Entry, FieldChange, Milestone, Move, Plan, Snapshot, Sprint, Stage, Ticket
from agenticpm.trends import Velocity, counts_in_points, points_of, tickets_of, velocity, work

_DAY: Final = timedelta(days=1)
_FAR: Final = datetime.max.replace(tzinfo=UTC)
# A pace so slow that the end is beyond this is told as this.
_LATE_DAYS_MAX: Final = 3650


# --- tickets -----------------------------------------------------------------------------------------------------


def is_stuck(ticket: Ticket) -> bool:
    return ticket.is_blocked and ticket.stage is not Stage.done


def is_stale(ticket: Ticket, now: datetime, thresholds: Thresholds) -> bool:
    """Nobody has touched it, though it is in progress. One that is blocked is told as that, and not twice."""
    if ticket.stage is not Stage.in_progress or ticket.is_blocked:
        return False
    return working_days(ticket.updated_at, now) >= thresholds.stale_working_days


def working_days(start: datetime, end: datetime) -> int:
    """Days that passed in whole, Saturdays and Sundays (in UTC) left out."""
    days = max(0, (end - start) // _DAY)
    weeks, rest = divmod(days, 7)
    first = start.astimezone(UTC).weekday()
    return weeks * 5 + sum((first + 1 + each) % 7 < 5 for each in range(rest))


def lacking_criteria(
    snapshot: Snapshot, now: datetime, thresholds: Thresholds
) -> Iterator[tuple[Ticket, Sprint]]:
    """Open tickets without acceptance criteria whose sprint runs, or begins soon."""
    for sprint in snapshot.plan.sprints:
        if sprint.state != "active" and (sprint.state != "future" or not is_near(sprint, now, thresholds)):
            continue
        for ticket in tickets_of(sprint, snapshot.tickets.values()):
            if not ticket.has_criteria and ticket.stage is not Stage.done:
                yield ticket, sprint


def is_near(sprint: Sprint, now: datetime, thresholds: Thresholds) -> bool:
    """It begins soon, or has begun."""
    if sprint.starts_at is None:
        return sprint.state == "active"
    return sprint.starts_at - now <= thresholds.near_sprint_days * _DAY


# --- the running sprint ------------------------------------------------------------------------------------------


def running_sprint(plan: Plan) -> Sprint | None:
    """Of several, the one that began last."""
    running = [each for each in plan.sprints if each.state == "active"]
    return max(
        running, key=lambda each: (each.starts_at is not None, each.starts_at or _FAR, each.id), default=None
    )


def entries_of(
    before: Snapshot, after: Snapshot, changes: Mapping[str, Sequence[FieldChange]], now: datetime
) -> Mapping[str, Entry]:
    """How each ticket came into the running sprint. What is known of one stays, so that scope has a fixed beginning."""
    sprint = running_sprint(after.plan)
    if sprint is None:
        return {}
    here = {each.key: each for each in tickets_of(sprint, after.tickets.values())}
    known = {
        key: entry
        for key, entry in after.entries.items()
        if entry.sprint == sprint.id and (key in here or key not in after.tickets)
    }
    for key, ticket in here.items():
        if key not in known:
            at = min(_entered(before.tickets.get(key), ticket, sprint, changes.get(key, ())), now)
            known[key] = Entry(sprint=sprint.id, at=at, points=ticket.points)
    return known


def _entered(
    before: Ticket | None, ticket: Ticket, sprint: Sprint, changes: Sequence[FieldChange]
) -> datetime:
    names = {sprint.id, sprint.name}
    for change in reversed(changes):
        if (
            change.field.lower() == "sprint"
            and names & _listed(change.after)
            and not names & _listed(change.before)
        ):
            return change.at
    if before is not None and before.sprint not in names:
        return ticket.updated_at
    return max(ticket.created_at, sprint.starts_at or ticket.created_at)


def _listed(text: str | None) -> set[str]:
    """A ticket's sprints, as a changelog writes them: one after the other, with commas."""
    return {each.strip() for each in (text or "").split(",")} | {text or ""}


def latecomers(snapshot: Snapshot, thresholds: Thresholds) -> list[tuple[Ticket, Entry]]:
    """Tickets that came into the running sprint after it was planned, by when they came."""
    sprint = running_sprint(snapshot.plan)
    if sprint is None or sprint.starts_at is None:
        return []
    planned_until = sprint.starts_at + timedelta(hours=thresholds.planning_hours)
    late = [
        (ticket, entry)
        for ticket in tickets_of(sprint, snapshot.tickets.values())
        if (entry := snapshot.entries.get(ticket.key))
        and entry.sprint == sprint.id
        and entry.at > planned_until
    ]
    return sorted(late, key=lambda each: (each[1].at, each[0].key))


@dataclass(frozen=True, slots=True)
class Scope:
    """The running sprint's: what was planned, and what came to it."""

    sprint: Sprint
    unit: str
    planned: Decimal
    added: Decimal
    late: tuple[Ticket, ...]
    grown: tuple[tuple[Ticket, Decimal], ...]  # with what each was when it came in

    @property
    def share(self) -> Decimal:
        return self.added / self.planned if self.planned else Decimal(0)


def scope_of_sprint(snapshot: Snapshot, thresholds: Thresholds) -> Scope | None:
    sprint = running_sprint(snapshot.plan)
    if sprint is None:
        return None
    tickets = tickets_of(sprint, snapshot.tickets.values())
    in_points = counts_in_points(tickets)
    late = tuple(ticket for ticket, _ in latecomers(snapshot, thresholds))
    grown = tuple(_grown(snapshot, sorted(tickets, key=lambda each: each.key)))
    growth = sum((points_of(ticket.points) - was for ticket, was in grown if ticket not in late), Decimal(0))
    added = work(late, in_points) + growth
    planned = work(tickets, in_points) - added
    return Scope(sprint, "points" if in_points else "tickets", planned, added, late, grown)


def _grown(snapshot: Snapshot, tickets: Sequence[Ticket]) -> Iterator[tuple[Ticket, Decimal]]:
    """An estimate that was not there before is no growth."""
    for ticket in tickets:
        entry = snapshot.entries.get(ticket.key)
        if entry is not None and (was := points_of(entry.points)) and points_of(ticket.points) > was:
            yield ticket, was


def has_grown_much(ticket: Ticket, was: Decimal, thresholds: Thresholds) -> bool:
    return ticket.stage is not Stage.done and points_of(ticket.points) - was >= was * thresholds.growth_share


# --- milestones --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Outlook:
    """Whether a milestone will be met at the present pace."""

    milestone: Milestone
    status: str  # on_track, at_risk, delayed or completed
    late_days: int
    remaining: Decimal
    unit: str
    moved: Move | None = None

    @property
    def is_only_moved(self) -> bool:
        """At risk because it was put off, and for no other reason: at the present pace the new date is kept."""
        return self.status == "at_risk" and self.late_days == 0

    @property
    def standing(self) -> str:
        """What is news when it is another than before."""
        return "moved" if self.is_only_moved else self.status


def milestones_of(plan: Plan) -> list[Milestone]:
    """By when they are due. Of several with one name, the one that is open and due first."""
    named: dict[str, Milestone] = {}
    for each in sorted(plan.milestones, key=lambda one: (one.is_done, one.due_at or _FAR, one.name)):
        named.setdefault(each.name, each)
    return sorted(named.values(), key=lambda one: (one.due_at or _FAR, one.name))


def moves_of(snapshot: Snapshot, now: datetime, thresholds: Thresholds) -> dict[str, Move]:
    """Milestones that were put off and are at risk for it: for some days after the move was seen, unless they are done
    or back at the date before. One that is put off again is counted from the first date, and from now."""
    found = {}
    for each in milestones_of(snapshot.plan):
        due, known = each.due_at, snapshot.moved.get(each.name)
        if due is None or each.is_done:
            continue
        if known is not None and (
            due <= known.before or now - known.at >= timedelta(days=thresholds.moved_days)
        ):
            known = None
        was = snapshot.promised.get(each.name, due)
        if known is not None and due <= known.after:
            found[each.name] = known.model_copy(update={"after": due})
        elif was < due:
            found[each.name] = Move(before=known.before if known else was, after=due, at=now)
    return found


def outlooks(snapshot: Snapshot, now: datetime, thresholds: Thresholds) -> list[Outlook]:
    """By when they are due. What is due earlier is done earlier: its work stands before that of those after it."""
    pace = velocity(snapshot, now, thresholds)
    left: dict[str | None, list[Ticket]] = {}
    for ticket in snapshot.tickets.values():
        if ticket.stage is not Stage.done:
            left.setdefault(ticket.milestone, []).append(ticket)
    ahead = Decimal(0)
    found = []
    for each in milestones_of(snapshot.plan):
        remaining = work(left.get(each.name, ()), pace.unit == "points")
        ahead += Decimal(0) if each.is_done else remaining
        found.append(_outlook(each, remaining, ahead, pace, now, snapshot.moved.get(each.name)))
    return found


def _outlook(
    milestone: Milestone,
    remaining: Decimal,
    ahead: Decimal,
    pace: Velocity,
    now: datetime,
    moved: Move | None,
) -> Outlook:
    late_days, status = 0, "on_track"
    if milestone.is_done:
        status = "completed"
    elif milestone.due_at is not None and milestone.due_at < now:
        status, late_days = "delayed", (now - milestone.due_at) // _DAY
    elif milestone.due_at is not None and remaining and pace.per_day is not None:
        late = ahead / pace.per_day - Decimal((milestone.due_at - now) // timedelta(hours=1)) / 24
        if late > 0:
            status, late_days = "at_risk", min(math.ceil(late), _LATE_DAYS_MAX)
    if status == "on_track" and moved is not None:
        status = "at_risk"
    return Outlook(milestone, status, late_days, remaining, pace.unit, moved)
