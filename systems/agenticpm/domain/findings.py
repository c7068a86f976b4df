"""Findings: one finder per signal kind, which checks its condition and builds the text and the evidence.

A finding exists as long as its condition holds; `signals.py` decides which findings are new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from agenticpm.domain.conditions import (
    MilestoneOutlook,
    compute_outlooks,
    compute_scope,
    find_latecomers,
    find_missing_criteria,
    has_grown_much,
    is_near,
    is_stale,
    is_stuck,
)
from agenticpm.domain.contents import RaidItem, RaidLog, parse_as
from agenticpm.domain.plain_text import (
    format_amount,
    format_count,
    format_day,
    format_number,
    to_line,
    to_name,
)
from agenticpm.domain.review_findings import find_review_signals
from agenticpm.domain.thresholds import Thresholds
from agenticpm.domain.tickets import (
    LATEST,
    Evidence,
    FieldChange,
    Priority,
    Signal,
    SignalKind,
    Snapshot,
    Sprint,
    Ticket,
    TicketStage,
)
from agenticpm.domain.trends import (
    Trend,
    clamp_points,
    compute_cycle_time,
    compute_half_means,
    compute_velocity,
    round_to_tenth,
)

# The number of tickets that a signal about a sprint names.
MAX_NAMED: Final = 10
MAX_NAME_CHARS: Final = 30

_SEVERITY_OF_PRIORITY: Final = {Priority.critical: "critical", Priority.high: "error"}
# What many tickets from before the watch are, as one signal.
_OLD_REVIEWED: Final = {
    SignalKind.overdue: "open past their due dates",
    SignalKind.due_soon: "due soon",
    SignalKind.unassigned: "of high priority without an assignee",
    SignalKind.on_hold: "on hold or waiting",
}
# Fields in which trackers report that a ticket is blocked, in lower case.
_BLOCKING_FIELDS: Final = ("flagged", "impediment", "is_blocked", "blocked", "dependency")
_LINK_FIELDS: Final = ("link", "issuelinks")


@dataclass(frozen=True, slots=True)
class Observation:
    """The input of the finders: two snapshots and the changes between them.

    `is_complete` is False while more pages of the tracker follow.
    """

    before: Snapshot
    after: Snapshot
    changes: Mapping[str, Sequence[FieldChange]]  # by ticket
    now: datetime
    thresholds: Thresholds
    is_complete: bool = True

    @property
    def watched_since(self) -> datetime:
        """When the project was first read; now, if this is the first read."""
        return self.after.watched_since or self.now

    def find_change(self, ticket: str, *fields: str) -> FieldChange | None:
        """Return the ticket's last change of one of these fields (in lower case), or None."""
        found = [each for each in self.changes.get(ticket, ()) if each.field.lower() in fields]
        return found[-1] if found else None


@dataclass(frozen=True, slots=True)
class Finding:
    """A condition that holds. Reporting it sets `flag`, or removes it with `clears_flag`.

    `is_always_new`: reported even if the flag is set.

    `covers` are the flags of other findings that are reported with it.
    """

    signal: Signal
    flag: str | None
    clears_flag: bool = False
    is_always_new: bool = False
    covers: tuple[str, ...] = ()

    def is_new(self, flags: Mapping[str, datetime]) -> bool:
        """Return whether it is to be reported: its flag is not set yet, or is set and to be cleared."""
        return self.is_always_new or (self.flag in flags) is self.clears_flag


def find_all(observation: Observation, raid_log: Mapping[str, Any] | None) -> Iterator[Finding]:
    """Yield every finding. Those of the whole project need all pages, those of risks a RAID log."""
    for find in _TICKET_FINDERS + (_PROJECT_FINDERS if observation.is_complete else ()):
        yield from find(observation)
    if raid_log is not None:
        yield from _find_risks(observation, parse_as(RaidLog, raid_log))


def _find_reviewed(observation: Observation) -> Iterator[Finding]:
    """Yield the findings of the review; those of tickets from before the watch may be grouped."""
    seen, old = observation, dict[SignalKind, list[Finding]]()
    for signal in find_review_signals(seen.after, seen.now, seen.thresholds, is_complete=seen.is_complete):
        ticket = seen.after.tickets.get(signal.subject)
        if signal.kind in _OLD_REVIEWED and ticket and ticket.updated_at <= seen.watched_since:
            old.setdefault(signal.kind, []).append(Finding(signal, signal.key))
        else:
            yield Finding(signal, signal.key)
    for kind, says in _OLD_REVIEWED.items():
        yield from _group_old(observation, kind, old.get(kind, []), says)


def _build_finding(
    kind: SignalKind, subject: str, severity: str, summary: str, *evidence: Evidence
) -> Finding:
    """Build a finding whose flag is the signal's key."""
    signal = Signal(kind=kind, subject=subject, severity=severity, summary=summary, evidence=evidence)
    return Finding(signal, signal.key)


def _format_ticket(ticket: Ticket) -> str:
    return f"{to_name(ticket.key)} ({to_line(ticket.title, 80)})"


# --- tickets ------------------------------------------------------------------------------------------------


def _find_blocked(observation: Observation) -> Iterator[Finding]:
    """Yield a finding for each ticket that is blocked and not done."""
    for ticket in filter(is_stuck, observation.after.tickets.values()):
        why = f": {to_line(ticket.blocked_reason)}" if to_line(ticket.blocked_reason) else ""
        yield _build_finding(
            SignalKind.blocked,
            ticket.key,
            _SEVERITY_OF_PRIORITY.get(ticket.priority, "warning"),
            f"{_format_ticket(ticket)} is blocked{why}",
            _build_blocking_evidence(observation, ticket),
        )


def _find_unblocked(observation: Observation) -> Iterator[Finding]:
    """Yield a finding for each ticket that was reported as blocked and no longer is; it clears the flag."""
    for ticket in observation.after.tickets.values():
        flag = f"{SignalKind.blocked}:{ticket.key}"
        if flag in observation.after.flags and not is_stuck(ticket):
            what = "is done" if ticket.stage is TicketStage.done else "is no longer blocked"
            signal = Signal(
                kind=SignalKind.unblocked,
                subject=ticket.key,
                severity="info",
                summary=f"{_format_ticket(ticket)} {what}",
                evidence=(_build_blocking_evidence(observation, ticket),),
            )
            yield Finding(signal, flag, clears_flag=True)


def compute_blocked_since(observation: Observation) -> dict[str, datetime]:
    """Return since when each blocked ticket is blocked, by key. A known time stays until it is unblocked."""
    found = {}
    for ticket in filter(is_stuck, observation.after.tickets.values()):
        at = (
            observation.after.blocked_since.get(ticket.key)
            or _build_blocking_evidence(observation, ticket).at
            or observation.now
        )
        found[ticket.key] = min(at, observation.now)
    return found


def _build_blocking_evidence(observation: Observation, ticket: Ticket) -> Evidence:
    """Build the evidence from the changelog (flag, link or status), or else from the two snapshots."""
    changes = [each for each in observation.changes.get(ticket.key, ()) if _may_block(each, ticket)]
    if changes:
        return _build_change_evidence(changes[-1])
    was = observation.before.tickets.get(ticket.key)
    return Evidence(
        ticket=ticket.key,
        field="is_blocked",
        before=None if was is None else str(was.is_blocked).lower(),
        after=str(ticket.is_blocked).lower(),
        at=ticket.updated_at,
    )


def _may_block(change: FieldChange, ticket: Ticket) -> bool:
    """Return whether a change can be what blocked or unblocked the ticket: its flag, link or status."""
    field = change.field.lower()
    if field in _LINK_FIELDS:
        return "block" in f"{change.before} {change.after}".lower()
    return field in _BLOCKING_FIELDS or (field == "status" and change.after == ticket.status)


def _build_change_evidence(change: FieldChange) -> Evidence:
    return Evidence(
        ticket=change.ticket,
        field=to_line(change.field),
        before=None if change.before is None else to_line(change.before),
        after=None if change.after is None else to_line(change.after),
        at=change.at,
    )


def _find_stale(observation: Observation) -> Iterator[Finding]:
    """Yield the stale tickets; those that were stale before the project was watched may be grouped."""
    found: list[Finding] = []
    old: list[Finding] = []
    for ticket in observation.after.tickets.values():
        if is_stale(ticket, observation.now, observation.thresholds):
            was_so = is_stale(ticket, observation.watched_since, observation.thresholds)
            (old if was_so else found).append(_build_stale(ticket))
    yield from found
    yield from _group_old(
        observation, SignalKind.stale, old, "in progress and have not been updated for a long time"
    )


def _build_stale(ticket: Ticket) -> Finding:
    day = format_day(ticket.updated_at)
    evidence = Evidence(ticket=ticket.key, field="updated_at", after=day, at=ticket.updated_at)
    summary = f"{_format_ticket(ticket)} is in progress and has not been updated since {day}"
    return _build_finding(SignalKind.stale, ticket.key, "warning", summary, evidence)


def _find_missing_criteria(observation: Observation) -> Iterator[Finding]:
    """Yield the tickets that lack acceptance criteria; those from before the watch may be grouped."""
    found: list[Finding] = []
    old: list[Finding] = []
    for ticket, sprint in find_missing_criteria(observation.after, observation.now, observation.thresholds):
        was_so = ticket.updated_at <= observation.watched_since and is_near(
            sprint, observation.watched_since, observation.thresholds
        )
        (old if was_so else found).append(_build_missing_criteria(ticket, sprint))
    yield from found
    says = "in a current or upcoming sprint and have no acceptance criteria"
    yield from _group_old(observation, SignalKind.missing_criteria, old, says)


def _build_missing_criteria(ticket: Ticket, sprint: Sprint) -> Finding:
    return _build_finding(
        SignalKind.missing_criteria,
        ticket.key,
        "warning" if sprint.state == "active" else "info",
        f"{_format_ticket(ticket)} is in {to_name(sprint.name)} and has no acceptance criteria",
        Evidence(ticket=ticket.key, field="has_criteria", after="false", at=ticket.updated_at),
    )


def _group_old(
    observation: Observation, kind: SignalKind, old: Sequence[Finding], says: str
) -> Iterator[Finding]:
    """Yield the findings that held before the project was watched: if many, as one signal about the project.

    `old` are the findings of one kind, `says` is the end of the summary ("… tickets are …"). Their number is
    known only when everything was read. The signal sets the flag of each ticket too, so a ticket whose
    condition starts again is reported alone. While the project's flag is set, no old finding is new: flags
    rebuilt from events lack those of the tickets.
    """
    flags, flag = observation.after.flags, f"{kind}:{observation.after.project_key}"
    yield from (each for each in old if each.flag in flags)
    if not observation.is_complete or not old:
        return
    fresh = sorted((each for each in old if each.flag not in flags), key=_get_age_key)
    if flag in flags:
        yield Finding(_build_group_signal(observation, kind, old, says), flag)
    elif len({*_collect_flags(fresh)}) > observation.thresholds.gathered_above:
        yield Finding(
            _build_group_signal(observation, kind, fresh, says), flag, covers=tuple(_collect_flags(fresh))
        )
    else:
        yield from fresh


def _get_age_key(finding: Finding) -> tuple[datetime, str]:
    """Return the sort key of a finding with one evidence: oldest first."""
    (evidence,) = finding.signal.evidence
    return evidence.at or LATEST, finding.signal.subject


def _collect_flags(found: Iterable[Finding]) -> Iterator[str]:
    """Yield the flags of the findings that have one."""
    return (each.flag for each in found if each.flag is not None)


def _build_group_signal(
    observation: Observation, kind: SignalKind, found: Sequence[Finding], says: str
) -> Signal:
    """Build one signal for many tickets: the first ten as evidence, and the total number."""
    unique = list({each.signal.subject: each for each in found}.values())
    named = ", ".join(to_name(each.signal.subject, MAX_NAME_CHARS) for each in unique[:MAX_NAMED])
    more = f" and {len(unique) - MAX_NAMED} more" if len(unique) > MAX_NAMED else ""
    return Signal(
        kind=kind,
        subject=observation.after.project_key,
        severity="warning" if any(each.signal.severity == "warning" for each in unique) else "info",
        summary=f"{len(unique)} tickets are {says}: {named}{more}",
        evidence=(
            *(each.signal.evidence[0] for each in unique[:MAX_NAMED]),
            Evidence(field="tickets", after=str(len(unique)), at=observation.now),
        ),
    )


def _find_new(observation: Observation) -> Iterator[Finding]:
    """Yield the tickets added to the running sprint after its planning and since the watch began."""
    for ticket, entry in find_latecomers(observation.after, observation.thresholds):
        if entry.at > observation.watched_since:
            change = observation.find_change(ticket.key, "sprint")
            evidence = Evidence(ticket=ticket.key, field="sprint", after=to_line(ticket.sprint), at=entry.at)
            yield _build_finding(
                SignalKind.new,
                ticket.key,
                "info",
                f"{_format_ticket(ticket)} was added to the running sprint on {format_day(entry.at)}",
                _build_change_evidence(change) if change else evidence,
            )


# --- project -------------------------------------------------------------------------------------------


def _find_scope_creep(observation: Observation) -> Iterator[Finding]:
    """Yield a finding if the running sprint gained too much work, and one for each ticket that grew much."""
    scope = compute_scope(observation.after, observation.thresholds)
    if scope is None:
        return
    if scope.share >= observation.thresholds.scope_share:
        name, added = to_name(scope.sprint.name), format_amount(scope.added, scope.unit)
        came = ", ".join(to_name(each.key) for each in scope.late[:MAX_NAMED])
        yield _build_finding(
            SignalKind.scope_creep,
            scope.sprint.name,
            "error" if scope.share >= observation.thresholds.scope_share * 2 else "warning",
            f"{name} began with {format_amount(scope.planned, scope.unit)} and gained {added}"
            + (f": {came}" if came else ""),
            *_build_added_evidence(observation, scope.late[:MAX_NAMED]),
            Evidence(
                field=scope.unit,
                before=format_number(scope.planned),
                after=format_number(scope.planned + scope.added),
                at=observation.now,
            ),
        )
    for ticket, was in scope.grown:
        if has_grown_much(ticket, was, observation.thresholds):
            yield _build_grown(observation, ticket, was)


def _build_added_evidence(observation: Observation, tickets: Sequence[Ticket]) -> Iterator[Evidence]:
    """Yield the time at which each ticket entered the sprint as evidence."""
    for each in tickets:
        yield Evidence(
            ticket=each.key,
            field="sprint",
            after=to_line(each.sprint),
            at=observation.after.entries[each.key].at,
        )


def _build_grown(observation: Observation, ticket: Ticket, was: Decimal) -> Finding:
    """Build the finding that a ticket grew from `was` points."""
    now = clamp_points(ticket.points)
    before, after = format_number(was), format_number(now)
    change = observation.find_change(ticket.key, "points", "story points", "story point estimate")
    at = change.at if change else ticket.updated_at
    return _build_finding(
        SignalKind.scope_creep,
        ticket.key,
        "warning",
        f"{_format_ticket(ticket)} grew from {before} to {format_amount(now, 'points')} during the sprint",
        Evidence(ticket=ticket.key, field="points", before=before, after=after, at=at),
    )


def _find_slipping_milestones(observation: Observation) -> Iterator[Finding]:
    """Yield the open milestones that are at risk or delayed, or whose due date was moved to a later day."""
    for outlook in compute_outlooks(observation.after, observation.now, observation.thresholds):
        due, name = outlook.milestone.due_at, outlook.milestone.name
        if due is None or outlook.milestone.is_done:
            continue
        was = observation.after.promised.get(name, due)
        slips = outlook.status in ("at_risk", "delayed")
        if not slips and was >= due:
            continue
        signal = _build_slip_signal(
            observation, outlook, min(was, outlook.moved.before) if outlook.moved else was, due
        )
        flag = f"{signal.key}:{outlook.news_key}" if slips else None
        yield Finding(signal, flag, is_always_new=was < due)


def _build_slip_signal(
    observation: Observation, outlook: MilestoneOutlook, was: datetime, due: datetime
) -> Signal:
    """Build the signal. `was` is the earlier due date, `due` the current one."""
    open_work = format_amount(outlook.remaining, outlook.unit)
    status_text = {
        "delayed": f"was due on {format_day(due)} and is not done, with {open_work} open",
        "at_risk": f"is due on {format_day(due)}; with {open_work} open it will be about "
        f"{format_count(outlook.late_days, 'day')} late at the current pace",
    }.get(outlook.news_key, f"is now due on {format_day(due)}")
    moved = f"; it was moved from {format_day(was)}" if was < due else ""
    moved_days = max(0, (due - was) // timedelta(days=1))
    return Signal(
        kind=SignalKind.slipping_milestone,
        subject=outlook.milestone.name,
        severity=_get_slip_severity(
            max(outlook.late_days, moved_days), outlook.news_key, observation.thresholds
        ),
        summary=f"{to_name(outlook.milestone.name)} {status_text}{moved}",
        evidence=(
            Evidence(field="due_at", before=format_day(was), after=format_day(due), at=observation.now),
            Evidence(field="remaining", after=open_work, at=observation.now),
        ),
    )


def _get_slip_severity(days: int, news_key: str, thresholds: Thresholds) -> str:
    """Return the severity for a slip of this many days; `info` if the date was only moved."""
    if news_key == "moved":
        return "info"  # people moved the date, and the new one can be met
    if days >= thresholds.slip_critical_days:
        return "critical"
    return "error" if news_key == "delayed" or days >= thresholds.slip_error_days else "warning"


def _find_velocity_trend(observation: Observation) -> Iterator[Finding]:
    """Yield a finding when the velocity starts to fall, and when it no longer falls."""
    pace = compute_velocity(observation.after, observation.now, observation.thresholds)
    yield from _find_trend_turn(
        observation,
        SignalKind.velocity_trend,
        pace.values,
        pace.trend is Trend.decreasing,
        (pace.unit, pace.period),
        ("Velocity is falling", "Velocity is no longer falling"),
    )


def _find_cycle_time_trend(observation: Observation) -> Iterator[Finding]:
    """Yield a finding when tickets start to take longer, and when they no longer do."""
    times = compute_cycle_time(observation.after.tickets.values(), observation.thresholds)
    yield from _find_trend_turn(
        observation,
        SignalKind.cycle_time_trend,
        times.values,
        times.trend is Trend.increasing,
        ("days", "ticket"),
        ("Tickets take longer", "Tickets no longer take longer"),
    )


def _find_trend_turn(
    observation: Observation,
    kind: SignalKind,
    values: Sequence[Decimal],
    is_worse: bool,
    unit: tuple[str, str],
    says: tuple[str, str],
) -> Iterator[Finding]:
    """Yield a finding that sets the flag if the trend is worse, or clears a set flag if it is not.

    `unit` is the unit of the values and the period; `says` the summary for worse and for no longer worse.
    """
    flag = f"{kind}:{observation.after.project_key}"
    if not is_worse and flag not in observation.after.flags:
        return
    before, lately = map(round_to_tenth, compute_half_means(values)) if len(values) > 1 else (None, None)
    earlier, recent = ("none" if each is None else format_number(each) for each in (before, lately))
    shown_recent = recent if lately is None else format_amount(lately, unit[0])
    signal = Signal(
        kind=kind,
        subject=observation.after.project_key,
        severity="warning" if is_worse else "info",
        summary=f"{says[0] if is_worse else says[1]}: {shown_recent} a {unit[1]} lately, {earlier} before",
        evidence=(
            Evidence(field=kind.removesuffix("_trend"), before=earlier, after=recent, at=observation.now),
        ),
    )
    yield Finding(signal, flag, clears_flag=not is_worse)


# --- risks --------------------------------------------------------------------------------------------------


def _find_risks(observation: Observation, raid_log: RaidLog) -> Iterator[Finding]:
    """Yield the active RAID items that are due soon, overdue, or not reviewed for too long."""
    for item in raid_log.items:
        if not item.is_active:
            continue
        if item.due_date is not None:
            yield from _find_due_risk(observation, item, item.due_date)
        reviewed = item.last_reviewed or item.raised_date
        if observation.now - reviewed >= timedelta(days=observation.thresholds.review_days):
            yield _build_finding(
                SignalKind.review_due,
                item.id,
                "info",
                f"{item.id} ({to_line(item.title)}) was not reviewed since {format_day(reviewed)}",
                Evidence(field="last_reviewed", after=format_day(reviewed), at=reviewed),
            )


def _find_due_risk(observation: Observation, item: RaidItem, due: datetime) -> Iterator[Finding]:
    """Yield a finding if the item is overdue or due within the threshold of days."""
    evidence = Evidence(field="due_date", after=format_day(due), at=due)
    about = f"{item.id} ({to_line(item.title)})"
    if due < observation.now:
        severity = "critical" if item.severity == "critical" else "error"
        summary = f"{about} was due on {format_day(due)} and is {item.status}"
        yield _build_finding(SignalKind.risk_overdue, item.id, severity, summary, evidence)
    elif due - observation.now <= timedelta(days=observation.thresholds.risk_due_days):
        severity = "error" if item.severity == "critical" else "warning"
        yield _build_finding(
            SignalKind.risk_due, item.id, severity, f"{about} is due on {format_day(due)}", evidence
        )


_TICKET_FINDERS: Final[tuple[Callable[[Observation], Iterator[Finding]], ...]] = (
    _find_blocked,
    _find_unblocked,
    _find_stale,
    _find_missing_criteria,
    _find_new,
    _find_reviewed,
)
_PROJECT_FINDERS: Final[tuple[Callable[[Observation], Iterator[Finding]], ...]] = (
    _find_scope_creep,
    _find_slipping_milestones,
    _find_velocity_trend,
    _find_cycle_time_trend,
)
