"""Conditions in a snapshot: blocked and stale tickets, sprint scope, missing criteria, milestone outlooks.

All functions are pure. `signals.py` reports when a condition begins; the artefact writers list the conditions
that hold.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final

from agenticpm.domain.thresholds import Thresholds
from agenticpm.domain.tickets import (
    Entry,
    FieldChange,
    Milestone,
    Move,
    Plan,
    Snapshot,
    Sprint,
    Ticket,
    TicketStage,
)
from agenticpm.domain.trends import (
    Velocity,
    clamp_points,
    compute_velocity,
    has_points,
    select_sprint_tickets,
    sum_work,
)

_DAY: Final = timedelta(days=1)
_FAR: Final = datetime.max.replace(tzinfo=UTC)
# The maximum reported delay, for a very low velocity.
_MAX_LATE_DAYS: Final = 3650


# --- tickets ------------------------------------------------------------------------------------------------


def is_stuck(ticket: Ticket) -> bool:
    """Return whether the ticket is blocked and not done."""
    return ticket.is_blocked and ticket.stage is not TicketStage.done


def is_stale(ticket: Ticket, now: datetime, thresholds: Thresholds) -> bool:
    """Return whether a ticket in progress was not updated for too long.

    Blocked tickets are reported as blocked only.
    """
    if ticket.stage is not TicketStage.in_progress or ticket.is_blocked:
        return False
    return count_working_days(ticket.updated_at, now) >= thresholds.stale_working_days


def count_working_days(start: datetime, end: datetime) -> int:
    """Count the whole days from `start` to `end`, without Saturdays and Sundays (in UTC)."""
    days = max(0, (end - start) // _DAY)
    weeks, rest = divmod(days, 7)
    first = start.astimezone(UTC).weekday()
    return weeks * 5 + sum((first + 1 + each) % 7 < 5 for each in range(rest))


def find_missing_criteria(
    snapshot: Snapshot, now: datetime, thresholds: Thresholds
) -> Iterator[tuple[Ticket, Sprint]]:
    """Yield open tickets without acceptance criteria, with their sprint, if it is running or starts soon."""
    for sprint in snapshot.plan.sprints:
        if sprint.state != "active" and (sprint.state != "future" or not is_near(sprint, now, thresholds)):
            continue
        for ticket in select_sprint_tickets(sprint, snapshot.tickets.values()):
            if not ticket.has_criteria and ticket.stage is not TicketStage.done:
                yield ticket, sprint


def is_near(sprint: Sprint, now: datetime, thresholds: Thresholds) -> bool:
    """Return whether the sprint has started or starts within the threshold of days.

    A sprint without a start date is near only if it is active.
    """
    if sprint.starts_at is None:
        return sprint.state == "active"
    return sprint.starts_at - now <= thresholds.near_sprint_days * _DAY


# --- the running sprint -------------------------------------------------------------------------------------


def find_running_sprint(plan: Plan) -> Sprint | None:
    """Return the running sprint; of several, the one that started last."""
    running = [each for each in plan.sprints if each.state == "active"]
    return max(
        running, key=lambda each: (each.starts_at is not None, each.starts_at or _FAR, each.id), default=None
    )


def compute_entries(
    before: Snapshot, after: Snapshot, changes: Mapping[str, Sequence[FieldChange]], now: datetime
) -> Mapping[str, Entry]:
    """Return when, and with how many points, each ticket entered the running sprint, by ticket key.

    A known entry stays, so the scope has a fixed baseline. Without a running sprint, return nothing.
    """
    sprint = find_running_sprint(after.plan)
    if sprint is None:
        return {}
    here = {each.key: each for each in select_sprint_tickets(sprint, after.tickets.values())}
    known = {
        key: entry
        for key, entry in after.entries.items()
        if entry.sprint == sprint.id and (key in here or key not in after.tickets)
    }
    for key, ticket in here.items():
        if key not in known:
            at = min(_get_entry_time(before.tickets.get(key), ticket, sprint, changes.get(key, ())), now)
            known[key] = Entry(sprint=sprint.id, at=at, points=ticket.points)
    return known


def _get_entry_time(
    before: Ticket | None, ticket: Ticket, sprint: Sprint, changes: Sequence[FieldChange]
) -> datetime:
    """Return when the ticket entered the sprint: by the changelog, or else by the snapshots."""
    names = {sprint.id, sprint.name}
    for change in reversed(changes):
        if (
            change.field.lower() == "sprint"
            and names & _split_sprints(change.after)
            and not names & _split_sprints(change.before)
        ):
            return change.at
    if before is not None and before.sprint not in names:
        return ticket.updated_at
    return max(ticket.created_at, sprint.starts_at or ticket.created_at)


def _split_sprints(text: str | None) -> set[str]:
    """Return the sprints in a changelog value, split at commas, and the whole value.

    A sprint's name may contain a comma.
    """
    return {each.strip() for each in (text or "").split(",")} | {text or ""}


def find_latecomers(snapshot: Snapshot, thresholds: Thresholds) -> list[tuple[Ticket, Entry]]:
    """Return the tickets added to the running sprint after its planning, with their entries, by time."""
    sprint = find_running_sprint(snapshot.plan)
    if sprint is None or sprint.starts_at is None:
        return []
    planned_until = sprint.starts_at + timedelta(hours=thresholds.planning_hours)
    late = [
        (ticket, entry)
        for ticket in select_sprint_tickets(sprint, snapshot.tickets.values())
        if (entry := snapshot.entries.get(ticket.key))
        and entry.sprint == sprint.id
        and entry.at > planned_until
    ]
    return sorted(late, key=lambda each: (each[1].at, each[0].key))


@dataclass(frozen=True, slots=True)
class SprintScope:
    """The scope of the running sprint: planned work and added work."""

    sprint: Sprint
    unit: str
    planned: Decimal
    added: Decimal
    late: tuple[Ticket, ...]
    grown: tuple[tuple[Ticket, Decimal], ...]  # with its points on entry

    @property
    def share(self) -> Decimal:
        """The added work as a share of the planned work; 0 if nothing was planned."""
        return self.added / self.planned if self.planned else Decimal(0)


def compute_scope(snapshot: Snapshot, thresholds: Thresholds) -> SprintScope | None:
    """Compute the planned and added work of the running sprint, or return None without one."""
    sprint = find_running_sprint(snapshot.plan)
    if sprint is None:
        return None
    tickets = select_sprint_tickets(sprint, snapshot.tickets.values())
    in_points = has_points(tickets)
    late = tuple(ticket for ticket, _ in find_latecomers(snapshot, thresholds))
    grown = tuple(_find_grown(snapshot, sorted(tickets, key=lambda each: each.key)))
    growth = sum(
        (clamp_points(ticket.points) - was for ticket, was in grown if ticket not in late), Decimal(0)
    )
    added = sum_work(late, in_points) + growth
    planned = sum_work(tickets, in_points) - added
    return SprintScope(sprint, "points" if in_points else "tickets", planned, added, late, grown)


def _find_grown(snapshot: Snapshot, tickets: Sequence[Ticket]) -> Iterator[tuple[Ticket, Decimal]]:
    """Yield the tickets whose points grew in the sprint, with their points on entry.

    A first estimate is not growth.
    """
    for ticket in tickets:
        entry = snapshot.entries.get(ticket.key)
        if entry is not None and (was := clamp_points(entry.points)) and clamp_points(ticket.points) > was:
            yield ticket, was


def has_grown_much(ticket: Ticket, was: Decimal, thresholds: Thresholds) -> bool:
    """Return whether an open ticket's points grew from `was` by at least the threshold share."""
    return (
        ticket.stage is not TicketStage.done
        and clamp_points(ticket.points) - was >= was * thresholds.growth_share
    )


# --- milestones ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MilestoneOutlook:
    """The outlook of a milestone at the current velocity: its status, open work, and days late."""

    milestone: Milestone
    status: str  # on_track, at_risk, delayed or completed
    late_days: int
    remaining: Decimal
    unit: str
    moved: Move | None = None

    @property
    def is_only_moved(self) -> bool:
        """Return whether it is at risk only because its date was moved: the new date can be met."""
        return self.status == "at_risk" and self.late_days == 0

    @property
    def news_key(self) -> str:
        """The end of the signal's flag: when it changes, the outlook is reported again."""
        return "moved" if self.is_only_moved else self.status


def list_milestones(plan: Plan) -> list[Milestone]:
    """List the milestones by due date. Of several with one name, keep the open one that is due first."""
    named: dict[str, Milestone] = {}
    for each in sorted(plan.milestones, key=lambda one: (one.is_done, one.due_at or _FAR, one.name)):
        named.setdefault(each.name, each)
    return sorted(named.values(), key=lambda one: (one.due_at or _FAR, one.name))


def compute_moves(snapshot: Snapshot, now: datetime, thresholds: Thresholds) -> dict[str, Move]:
    """Return the moves of the milestones that are at risk because their date was moved, by milestone name.

    A move counts for some days, unless the milestone is done or back at its earlier date. A second move
    counts from the first date and from now.
    """
    found = {}
    for each in list_milestones(snapshot.plan):
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


def compute_outlooks(snapshot: Snapshot, now: datetime, thresholds: Thresholds) -> list[MilestoneOutlook]:
    """Return the outlooks by due date. Work of earlier milestones is assumed to be done first."""
    pace = compute_velocity(snapshot, now, thresholds)
    left: dict[str | None, list[Ticket]] = {}
    for ticket in snapshot.tickets.values():
        if ticket.stage is not TicketStage.done:
            left.setdefault(ticket.milestone, []).append(ticket)
    ahead = Decimal(0)
    found = []
    for each in list_milestones(snapshot.plan):
        remaining = sum_work(left.get(each.name, ()), pace.unit == "points")
        ahead += Decimal(0) if each.is_done else remaining
        found.append(_compute_outlook(each, remaining, ahead, pace, now, snapshot.moved.get(each.name)))
    return found


def _compute_outlook(
    milestone: Milestone,
    remaining: Decimal,
    ahead: Decimal,
    pace: Velocity,
    now: datetime,
    moved: Move | None,
) -> MilestoneOutlook:
    """Compute one outlook. `ahead` is the open work of this milestone and of all earlier ones."""
    late_days, status = 0, "on_track"
    if milestone.is_done:
        status = "completed"
    elif milestone.due_at is not None and milestone.due_at < now:
        status, late_days = "delayed", (now - milestone.due_at) // _DAY
    elif milestone.due_at is not None and remaining and pace.per_day is not None:
        late = ahead / pace.per_day - Decimal((milestone.due_at - now) // timedelta(hours=1)) / 24
        if late > 0:
            status, late_days = "at_risk", min(math.ceil(late), _MAX_LATE_DAYS)
    if status == "on_track" and moved is not None:
        status = "at_risk"
    return MilestoneOutlook(milestone, status, late_days, remaining, pace.unit, moved)
