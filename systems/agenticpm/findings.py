"""What each signal looks for, what it says and what it rests on: one function for each, in one list.

A finding stands as long as its condition does; `signals.py` decides which of them are news.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from agenticpm.contents import RaidItem, RaidLog, parsed
from agenticpm.plain_text import amount_of, day_of, line_of, many, name_of, number_of
from agenticpm.standing import (
    Outlook,
    has_grown_much,
    is_near,
    is_stale,
    is_stuck,
    lacking_criteria,
    latecomers,
    outlooks,
    scope_of_sprint,
)
from agenticpm.thresholds import Thresholds
from agenticpm.tickets import (
    LATEST,
    Evidence,
    FieldChange,
    Priority,
    Signal,
    SignalKind,
    Snapshot,
    Sprint,
    Stage,
    Ticket,
)
from agenticpm.trends import Trend, cycle_time, halves, points_of, rounded, velocity

# How many tickets a signal about a sprint names.
NAMED_MAX: Final = 10
NAME_CHARS_MAX: Final = 30

_SEVERITY_OF_PRIORITY: Final = {Priority.critical: "critical", Priority.high: "error"}
# Fields under which trackers tell that something blocks a ticket, in small letters.
_BLOCKING_FIELDS: Final = ("flagged", "impediment", "is_blocked", "blocked", "dependency")
_LINK_FIELDS: Final = ("link", "issuelinks")


@dataclass(frozen=True, slots=True)
class Seen:
    """What findings are made from."""

    before: Snapshot
    after: Snapshot
    changes: Mapping[str, Sequence[FieldChange]]  # by ticket
    now: datetime
    thresholds: Thresholds
    is_whole: bool = True

    @property
    def since(self) -> datetime:
        return self.after.watched_since or self.now

    def change(self, ticket: str, *fields: str) -> FieldChange | None:
        """The last change of one of these fields."""
        found = [each for each in self.changes.get(ticket, ()) if each.field.lower() in fields]
        return found[-1] if found else None


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that stands. `flag` goes up when it is told; with `ends`, down. `always`: told though the flag is up.

    `covers` are flags of others that are told with it.
    """

    signal: Signal
    flag: str | None
    ends: bool = False
    always: bool = False
    covers: tuple[str, ...] = ()

    def is_news(self, flags: Mapping[str, datetime]) -> bool:
        return self.always or (self.flag in flags) is self.ends


def findings(seen: Seen, raid_log: Mapping[str, Any] | None) -> Iterator[Finding]:
    for find in _OF_TICKETS + (_OF_THE_WHOLE if seen.is_whole else ()):
        yield from find(seen)
    if raid_log is not None:
        yield from _risks(seen, parsed(RaidLog, raid_log))


def _stands(kind: SignalKind, subject: str, severity: str, summary: str, *evidence: Evidence) -> Finding:
    signal = Signal(kind=kind, subject=subject, severity=severity, summary=summary, evidence=evidence)
    return Finding(signal, signal.key)


def _told(ticket: Ticket) -> str:
    return f"{name_of(ticket.key)} ({line_of(ticket.title, 80)})"


# --- tickets -----------------------------------------------------------------------------------------------------


def _blocked(seen: Seen) -> Iterator[Finding]:
    for ticket in filter(is_stuck, seen.after.tickets.values()):
        why = f": {line_of(ticket.blocked_reason)}" if line_of(ticket.blocked_reason) else ""
        yield _stands(
            SignalKind.blocked,
            ticket.key,
            _SEVERITY_OF_PRIORITY.get(ticket.priority, "warning"),
            f"{_told(ticket)} is blocked{why}",
            _blocking(seen, ticket),
        )


def _unblocked(seen: Seen) -> Iterator[Finding]:
    for ticket in seen.after.tickets.values():
        flag = f"{SignalKind.blocked}:{ticket.key}"
        if flag in seen.after.flags and not is_stuck(ticket):
            what = "is done" if ticket.stage is Stage.done else "is no longer blocked"
            signal = Signal(
                kind=SignalKind.unblocked,
                subject=ticket.key,
                severity="info",
                summary=f"{_told(ticket)} {what}",
                evidence=(_blocking(seen, ticket),),
            )
            yield Finding(signal, flag, ends=True)


def blocked_since(seen: Seen) -> dict[str, datetime]:
    """Of tickets that are blocked: since when. What is known of one stays until it is not."""
    found = {}
    for ticket in filter(is_stuck, seen.after.tickets.values()):
        at = seen.after.blocked_since.get(ticket.key) or _blocking(seen, ticket).at or seen.now
        found[ticket.key] = min(at, seen.now)
    return found


def _blocking(seen: Seen, ticket: Ticket) -> Evidence:
    """What the changelog says about it: the flag, the link or the status; otherwise what the two snapshots show."""
    told = [each for each in seen.changes.get(ticket.key, ()) if _may_block(each, ticket)]
    if told:
        return _shown(told[-1])
    was = seen.before.tickets.get(ticket.key)
    return Evidence(
        ticket=ticket.key,
        field="is_blocked",
        before=None if was is None else str(was.is_blocked).lower(),
        after=str(ticket.is_blocked).lower(),
        at=ticket.updated_at,
    )


def _may_block(change: FieldChange, ticket: Ticket) -> bool:
    field = change.field.lower()
    if field in _LINK_FIELDS:
        return "block" in f"{change.before} {change.after}".lower()
    return field in _BLOCKING_FIELDS or (field == "status" and change.after == ticket.status)


def _shown(change: FieldChange) -> Evidence:
    return Evidence(
        ticket=change.ticket,
        field=line_of(change.field),
        before=None if change.before is None else line_of(change.before),
        after=None if change.after is None else line_of(change.after),
        at=change.at,
    )


def _stale(seen: Seen) -> Iterator[Finding]:
    found: list[Finding] = []
    old: list[Finding] = []
    for ticket in seen.after.tickets.values():
        if is_stale(ticket, seen.now, seen.thresholds):
            was_so = is_stale(ticket, seen.since, seen.thresholds)
            (old if was_so else found).append(_idle(ticket))
    yield from found
    yield from _gathered(seen, SignalKind.stale, old, "in progress, and nobody has touched them for long")


def _idle(ticket: Ticket) -> Finding:
    day = day_of(ticket.updated_at)
    evidence = Evidence(ticket=ticket.key, field="updated_at", after=day, at=ticket.updated_at)
    summary = f"{_told(ticket)} is in progress, and nobody has touched it since {day}"
    return _stands(SignalKind.stale, ticket.key, "warning", summary, evidence)


def _missing_criteria(seen: Seen) -> Iterator[Finding]:
    found: list[Finding] = []
    old: list[Finding] = []
    for ticket, sprint in lacking_criteria(seen.after, seen.now, seen.thresholds):
        was_so = ticket.updated_at <= seen.since and is_near(sprint, seen.since, seen.thresholds)
        (old if was_so else found).append(_lacking(ticket, sprint))
    yield from found
    says = "in a sprint that runs or is near, and have no acceptance criteria"
    yield from _gathered(seen, SignalKind.missing_criteria, old, says)


def _lacking(ticket: Ticket, sprint: Sprint) -> Finding:
    return _stands(
        SignalKind.missing_criteria,
        ticket.key,
        "warning" if sprint.state == "active" else "info",
        f"{_told(ticket)} is in {name_of(sprint.name)} and has no acceptance criteria",
        Evidence(ticket=ticket.key, field="has_criteria", after="false", at=ticket.updated_at),
    )


def _gathered(seen: Seen, kind: SignalKind, old: Sequence[Finding], says: str) -> Iterator[Finding]:
    """What was so when the project came under watch: many of a kind are one signal, of the project. How many there are is
    known when all was read. The flag of each goes up with it, so that one that begins anew is told alone.

    While the project's flag is up, nothing old is news: where flags were found in the events, those of the tickets are not.
    """
    flags, flag = seen.after.flags, f"{kind}:{seen.after.project_key}"
    yield from (each for each in old if each.flag in flags)
    if not seen.is_whole or not old:
        return
    fresh = sorted((each for each in old if each.flag not in flags), key=_age)
    if flag in flags:
        yield Finding(_of_many(seen, kind, old, says), flag)
    elif len({*_flags(fresh)}) > seen.thresholds.gathered_above:
        yield Finding(_of_many(seen, kind, fresh, says), flag, covers=tuple(_flags(fresh)))
    else:
        yield from fresh


def _age(finding: Finding) -> tuple[datetime, str]:
    (evidence,) = finding.signal.evidence
    return evidence.at or LATEST, finding.signal.subject


def _flags(found: Iterable[Finding]) -> Iterator[str]:
    return (each.flag for each in found if each.flag is not None)


def _of_many(seen: Seen, kind: SignalKind, found: Sequence[Finding], says: str) -> Signal:
    """With the oldest as its evidence, and how many there are."""
    told = list({each.signal.subject: each for each in found}.values())
    named = ", ".join(name_of(each.signal.subject, NAME_CHARS_MAX) for each in told[:NAMED_MAX])
    more = f" and {len(told) - NAMED_MAX} more" if len(told) > NAMED_MAX else ""
    return Signal(
        kind=kind,
        subject=seen.after.project_key,
        severity="warning" if any(each.signal.severity == "warning" for each in told) else "info",
        summary=f"{len(told)} tickets are {says}: {named}{more}",
        evidence=(
            *(each.signal.evidence[0] for each in told[:NAMED_MAX]),
            Evidence(field="tickets", after=str(len(told)), at=seen.now),
        ),
    )


def _new(seen: Seen) -> Iterator[Finding]:
    for ticket, entry in latecomers(seen.after, seen.thresholds):
        if entry.at > seen.since:
            change = seen.change(ticket.key, "sprint")
            evidence = Evidence(ticket=ticket.key, field="sprint", after=line_of(ticket.sprint), at=entry.at)
            yield _stands(
                SignalKind.new,
                ticket.key,
                "info",
                f"{_told(ticket)} came into the running sprint on {day_of(entry.at)}",
                _shown(change) if change else evidence,
            )


# --- the whole project -------------------------------------------------------------------------------------------


def _scope_creep(seen: Seen) -> Iterator[Finding]:
    scope = scope_of_sprint(seen.after, seen.thresholds)
    if scope is None:
        return
    if scope.share >= seen.thresholds.scope_share:
        name, added = name_of(scope.sprint.name), amount_of(scope.added, scope.unit)
        came = ", ".join(name_of(each.key) for each in scope.late[:NAMED_MAX])
        yield _stands(
            SignalKind.scope_creep,
            scope.sprint.name,
            "error" if scope.share >= seen.thresholds.scope_share * 2 else "warning",
            f"{name} began with {amount_of(scope.planned, scope.unit)}, and {added} came to it"
            + (f": {came}" if came else ""),
            *_added(seen, scope.late[:NAMED_MAX]),
            Evidence(
                field=scope.unit,
                before=number_of(scope.planned),
                after=number_of(scope.planned + scope.added),
                at=seen.now,
            ),
        )
    for ticket, was in scope.grown:
        if has_grown_much(ticket, was, seen.thresholds):
            yield _grown(seen, ticket, was)


def _added(seen: Seen, tickets: Sequence[Ticket]) -> Iterator[Evidence]:
    for each in tickets:
        yield Evidence(
            ticket=each.key, field="sprint", after=line_of(each.sprint), at=seen.after.entries[each.key].at
        )


def _grown(seen: Seen, ticket: Ticket, was: Decimal) -> Finding:
    now = points_of(ticket.points)
    before, after = number_of(was), number_of(now)
    change = seen.change(ticket.key, "points", "story points", "story point estimate")
    at = change.at if change else ticket.updated_at
    return _stands(
        SignalKind.scope_creep,
        ticket.key,
        "warning",
        f"{_told(ticket)} grew from {before} to {amount_of(now, 'points')} during the sprint",
        Evidence(ticket=ticket.key, field="points", before=before, after=after, at=at),
    )


def _slipping_milestone(seen: Seen) -> Iterator[Finding]:
    for outlook in outlooks(seen.after, seen.now, seen.thresholds):
        due, name = outlook.milestone.due_at, outlook.milestone.name
        if due is None or outlook.milestone.is_done:
            continue
        was = seen.after.promised.get(name, due)
        slips = outlook.status in ("at_risk", "delayed")
        if not slips and was >= due:
            continue
        signal = _slip(seen, outlook, min(was, outlook.moved.before) if outlook.moved else was, due)
        flag = f"{signal.key}:{outlook.standing}" if slips else None
        yield Finding(signal, flag, always=was < due)


def _slip(seen: Seen, outlook: Outlook, was: datetime, due: datetime) -> Signal:
    open_work = amount_of(outlook.remaining, outlook.unit)
    said = {
        "delayed": f"was due on {day_of(due)} and is not done, with {open_work} open",
        "at_risk": f"is due on {day_of(due)}; with {open_work} open it is about {many(outlook.late_days, 'day')} late at the present pace",
    }.get(outlook.standing, f"is now due on {day_of(due)}")
    moved = f"; it was moved from {day_of(was)}" if was < due else ""
    moved_days = max(0, (due - was) // timedelta(days=1))
    return Signal(
        kind=SignalKind.slipping_milestone,
        subject=outlook.milestone.name,
        severity=_slip_severity(max(outlook.late_days, moved_days), outlook.standing, seen.thresholds),
        summary=f"{name_of(outlook.milestone.name)} {said}{moved}",
        evidence=(
            Evidence(field="due_at", before=day_of(was), after=day_of(due), at=seen.now),
            Evidence(field="remaining", after=open_work, at=seen.now),
        ),
    )


def _slip_severity(days: int, standing: str, thresholds: Thresholds) -> str:
    if standing == "moved":
        return "info"  # people have decided, and their new date can be kept
    if days >= thresholds.slip_critical_days:
        return "critical"
    return "error" if standing == "delayed" or days >= thresholds.slip_error_days else "warning"


def _velocity_trend(seen: Seen) -> Iterator[Finding]:
    pace = velocity(seen.after, seen.now, seen.thresholds)
    yield from _turned(
        seen,
        SignalKind.velocity_trend,
        pace.values,
        pace.trend is Trend.decreasing,
        (pace.unit, pace.period),
        ("Velocity is falling", "Velocity is no longer falling"),
    )


def _cycle_time_trend(seen: Seen) -> Iterator[Finding]:
    taken = cycle_time(seen.after.tickets.values(), seen.thresholds)
    yield from _turned(
        seen,
        SignalKind.cycle_time_trend,
        taken.values,
        taken.trend is Trend.increasing,
        ("days", "ticket"),
        ("Tickets take longer", "Tickets no longer take longer"),
    )


def _turned(
    seen: Seen,
    kind: SignalKind,
    values: Sequence[Decimal],
    is_worse: bool,
    unit: tuple[str, str],
    says: tuple[str, str],
) -> Iterator[Finding]:
    """A trend is told when it turns to the worse, and when that is over."""
    flag = f"{kind}:{seen.after.project_key}"
    if not is_worse and flag not in seen.after.flags:
        return
    before, lately = map(rounded, halves(values)) if len(values) > 1 else (None, None)
    earlier, recent = ("none" if each is None else number_of(each) for each in (before, lately))
    told = recent if lately is None else amount_of(lately, unit[0])
    signal = Signal(
        kind=kind,
        subject=seen.after.project_key,
        severity="warning" if is_worse else "info",
        summary=f"{says[0] if is_worse else says[1]}: {told} a {unit[1]} lately, {earlier} before",
        evidence=(Evidence(field=kind.removesuffix("_trend"), before=earlier, after=recent, at=seen.now),),
    )
    yield Finding(signal, flag, ends=not is_worse)


# --- risks -------------------------------------------------------------------------------------------------------


def _risks(seen: Seen, raid_log: RaidLog) -> Iterator[Finding]:
    for item in raid_log.items:
        if not item.is_active:
            continue
        if item.due_date is not None:
            yield from _due(seen, item, item.due_date)
        reviewed = item.last_reviewed or item.raised_date
        if seen.now - reviewed >= timedelta(days=seen.thresholds.review_days):
            yield _stands(
                SignalKind.review_due,
                item.id,
                "info",
                f"{item.id} ({line_of(item.title)}) was not reviewed since {day_of(reviewed)}",
                Evidence(field="last_reviewed", after=day_of(reviewed), at=reviewed),
            )


def _due(seen: Seen, item: RaidItem, due: datetime) -> Iterator[Finding]:
    evidence = Evidence(field="due_date", after=day_of(due), at=due)
    about = f"{item.id} ({line_of(item.title)})"
    if due < seen.now:
        severity = "critical" if item.severity == "critical" else "error"
        summary = f"{about} was due on {day_of(due)} and is {item.status}"
        yield _stands(SignalKind.risk_overdue, item.id, severity, summary, evidence)
    elif due - seen.now <= timedelta(days=seen.thresholds.risk_due_days):
        severity = "error" if item.severity == "critical" else "warning"
        yield _stands(SignalKind.risk_due, item.id, severity, f"{about} is due on {day_of(due)}", evidence)


_OF_TICKETS: Final[tuple[Callable[[Seen], Iterator[Finding]], ...]] = (
    _blocked,
    _unblocked,
    _stale,
    _missing_criteria,
    _new,
)
_OF_THE_WHOLE: Final[tuple[Callable[[Seen], Iterator[Finding]], ...]] = (
    _scope_creep,
    _slipping_milestone,
    _velocity_trend,
    _cycle_time_trend,
)
