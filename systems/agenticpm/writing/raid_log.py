"""The RAID log by rules: what people wrote stays, what stands is raised once, and what has ended is resolved.

An item is found again by its `source_reference`: a ticket's key, or `milestone:`, `overdue:`, `sprint:`, `velocity:`,
`cycle_time:` or `mail:` with a name. Nothing of an item that is there is changed but its end, and that only of items these rules raised: so
a person may give one an owner, a date or another severity, and it stays. No item leaves the log, and no id comes twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from agenticpm.contents import RaidItem, RaidLog, free_ids, parsed, plain, stated
from agenticpm.mail_signals import thread_of
from agenticpm.plain_text import DETAIL_CHARS_MAX, amount_of, day_of, line_of, name_of, number_of
from agenticpm.standing import Outlook, is_stuck, outlooks, scope_of_sprint
from agenticpm.thresholds import Thresholds
from agenticpm.tickets import Signal, SignalKind, Snapshot, Stage, Ticket, Writing
from agenticpm.trends import Trend, cycle_time, velocity

DETECTED: Final = "agent_detected"
SIGNALLED: Final = "integration_signal"

# Mails of one thread, or about one ticket, are one risk. It ends when none came for so many days; and since anybody can
# write mails, no more than so many are open at once.
MAIL_QUIET_DAYS: Final = 14
MAIL_RISKS_MAX: Final = 10

# How each kind of item that the agent has concluded by itself ends.
_ENDINGS: Final[Mapping[str, str]] = {
    "milestone": "The milestone is done, can be met again, or has kept its new date for a while",
    "overdue": "The milestone is done, or has a new date",
    "sprint": "The sprint is over, or within its scope again",
    "velocity": "Velocity is no longer falling",
    "cycle_time": "Tickets no longer take longer",
}


@dataclass(frozen=True, slots=True)
class Cause:
    """Something that stands, as the item that it calls for. `flag` is that of its signal: since when it stands."""

    type: str
    reference: str
    title: str
    description: str
    severity: str
    mitigation: str
    source: str
    flag: str
    owner: str | None = None
    due: datetime | None = None
    raised: datetime | None = None
    since: datetime | None = None  # where it has no flag


def raid_log(writing: Writing, thresholds: Thresholds) -> dict[str, Any]:
    before = parsed(RaidLog, writing.previous or {"items": []})
    causes = {each.reference: each for each in _causes(writing, thresholds)}
    items = [_followed(each, causes, writing) for each in before.items]
    fresh = [each for each in causes.values() if not _is_known(each, before.items, writing.snapshot)]
    ids = free_ids("R", [each.id for each in before.items])
    raised = [_item(each, next(ids), writing.now) for each in _with_room(fresh, items)]
    return {"items": items + raised}


def _is_known(cause: Cause, items: Sequence[RaidItem], snapshot: Snapshot) -> bool:
    """Whether an item speaks of it already: one that is not over, or one that was ended while it stood."""
    since = cause.since or snapshot.flags.get(cause.flag)
    for item in items:
        if item.source_reference != cause.reference:
            continue
        if item.resolved_date is None or since is None or item.resolved_date >= since:
            return True
    return False


def _with_room(fresh: Sequence[Cause], items: Sequence[Mapping[str, Any]]) -> Iterator[Cause]:
    """Those of mails as long as few are open; the others wait until one has ended."""
    room = MAIL_RISKS_MAX - sum(
        each["status"] in ("open", "mitigating") and _is_of_mail(each["source_reference"]) for each in items
    )
    for each in fresh:
        if _is_of_mail(each.reference):
            room -= 1
            if room < 0:
                continue
        yield each


def _is_of_mail(reference: str | None) -> bool:
    return reference is not None and reference.startswith("mail:")


def _item(cause: Cause, id: str, now: datetime) -> dict[str, Any]:
    return {
        "id": id,
        "type": cause.type,
        "title": cause.title,
        "description": cause.description,
        "severity": cause.severity,
        "status": "open",
        "owner": cause.owner,
        "raised_date": stated(min(cause.raised or now, now)),
        "due_date": stated(cause.due) if cause.due else None,
        "mitigation": cause.mitigation,
        "resolution": None,
        "resolved_date": None,
        "source": cause.source,
        "source_reference": cause.reference,
        "last_reviewed": stated(now),
    }


# --- ends --------------------------------------------------------------------------------------------------------


def _followed(item: RaidItem, causes: Mapping[str, Cause], writing: Writing) -> dict[str, Any]:
    ending = _ending(item, causes, writing.snapshot)
    if ending is None:
        return plain(item)
    ended = {
        "status": "resolved",
        "resolution": ending,
        "resolved_date": stated(max(writing.now, item.raised_date)),
    }
    return plain(item) | ended


def _ending(item: RaidItem, causes: Mapping[str, Cause], snapshot: Snapshot) -> str | None:
    """How the cause of an item of ours has ended; None while it stands, and for all that is not ours."""
    reference = item.source_reference
    if not item.is_active or reference is None or reference in causes:
        return None
    if item.source == DETECTED:
        kind, _, name = reference.partition(":")
        came_true = kind == "milestone" and f"overdue:{name}" in causes
        return "It came true: the milestone is overdue" if came_true else _ENDINGS.get(kind)
    if item.source == SIGNALLED and _is_of_mail(reference):
        # Once somebody works on it, it is theirs to end.
        return f"No mail spoke of it for {MAIL_QUIET_DAYS} days" if item.status == "open" else None
    if item.source == SIGNALLED and item.type == "issue":
        return _ticket_ending(reference, snapshot.tickets.get(reference))
    return None


def _ticket_ending(key: str, ticket: Ticket | None) -> str:
    if ticket is None:
        return f"{name_of(key)} is no longer in the project"
    return f"{name_of(key)} is {'done' if ticket.stage is Stage.done else 'no longer blocked'}"


# --- causes ------------------------------------------------------------------------------------------------------


def _causes(writing: Writing, thresholds: Thresholds) -> Iterator[Cause]:
    snapshot = writing.snapshot
    for key in sorted(snapshot.tickets):
        if is_stuck(snapshot.tickets[key]):
            yield _blocked(snapshot.tickets[key], snapshot)
    for outlook in outlooks(snapshot, writing.now, thresholds):
        if outlook.status in ("at_risk", "delayed"):
            yield (_put_off if outlook.is_only_moved else _slipping)(outlook, thresholds)
    yield from _of_the_whole(writing, thresholds)
    yield from _mentioned(snapshot, writing.now)


def _blocked(ticket: Ticket, snapshot: Snapshot) -> Cause:
    key = name_of(ticket.key)
    return Cause(
        type="issue",
        reference=ticket.key,
        title=f"{key} is blocked: {name_of(ticket.title)}",
        description=line_of(ticket.blocked_reason, DETAIL_CHARS_MAX)
        or f"The tracker shows {key} as blocked.",
        severity=str(ticket.priority),
        mitigation=f"Find out what {key} waits for, and who can clear it",
        source=SIGNALLED,
        flag=f"{SignalKind.blocked}:{ticket.key}",
        owner=line_of(ticket.assignee) or None,
        due=ticket.due_at,
        raised=snapshot.blocked_since.get(ticket.key, ticket.updated_at),
    )


def _slipping(outlook: Outlook, thresholds: Thresholds) -> Cause:
    milestone, is_late = outlook.milestone, outlook.status == "delayed"
    name = name_of(milestone.name)
    due = day_of(milestone.due_at) if milestone.due_at else "no date"
    is_far = outlook.late_days >= thresholds.slip_critical_days
    return Cause(
        type="issue" if is_late else "risk",
        reference=f"{'overdue' if is_late else 'milestone'}:{milestone.name}",
        title=f"{name} {'is overdue' if is_late else 'may be late'}",
        description=f"{name} is due on {due}, with {amount_of(outlook.remaining, outlook.unit)} open.",
        severity="critical" if is_late and is_far else "high" if is_late or is_far else "medium",
        mitigation=f"Move the date of {name}, or cut its scope",
        source=DETECTED,
        flag=f"{SignalKind.slipping_milestone}:{milestone.name}:{outlook.status}",
        due=milestone.due_at,
    )


def _put_off(outlook: Outlook, thresholds: Thresholds) -> Cause:
    milestone, move = outlook.milestone, outlook.moved
    assert move is not None, "only what was moved is at risk for it"
    name = name_of(milestone.name)
    is_far = move.after - move.before >= timedelta(days=thresholds.slip_critical_days)
    return Cause(
        type="risk",
        reference=f"milestone:{milestone.name}",
        title=f"{name} was put off",
        description=f"{name} was due on {day_of(move.before)} and is due on {day_of(move.after)} now, with "
        f"{amount_of(outlook.remaining, outlook.unit)} open.",
        severity="medium" if is_far else "low",
        mitigation=f"Tell those who wait for {name}, and agree on what would keep the new date",
        source=DETECTED,
        flag=f"{SignalKind.slipping_milestone}:{milestone.name}:{outlook.standing}",
        due=milestone.due_at,
        raised=move.at,
    )


def _of_the_whole(writing: Writing, thresholds: Thresholds) -> Iterator[Cause]:
    snapshot = writing.snapshot
    scope = scope_of_sprint(snapshot, thresholds)
    if scope is not None and scope.share >= thresholds.scope_share:
        name = name_of(scope.sprint.name)
        yield Cause(
            type="risk",
            reference=f"sprint:{scope.sprint.name}",
            title=f"The scope of {name} has grown",
            description=f"{amount_of(scope.added, scope.unit)} came to the {number_of(scope.planned)} it began with.",
            severity="medium",
            mitigation=f"Agree on what leaves {name}",
            source=DETECTED,
            flag=f"{SignalKind.scope_creep}:{scope.sprint.name}",
            due=scope.sprint.ends_at,
        )
    if velocity(snapshot, writing.now, thresholds).trend is Trend.decreasing:
        yield _trend(snapshot, "velocity", "Velocity is falling", "Less is done in a period than before.")
    if cycle_time(snapshot.tickets.values(), thresholds).trend is Trend.increasing:
        yield _trend(
            snapshot, "cycle_time", "Tickets take longer", "From start to end, more time passes than before."
        )


def _trend(snapshot: Snapshot, what: str, title: str, description: str) -> Cause:
    return Cause(
        type="risk",
        reference=f"{what}:{snapshot.project_key}",
        title=title,
        description=description,
        severity="medium",
        mitigation="Look for the cause with the team",
        source=DETECTED,
        flag=f"{what}_trend:{snapshot.project_key}",
    )


def _mentioned(snapshot: Snapshot, now: datetime) -> Iterator[Cause]:
    """One for each thread, by when it began."""
    threads: dict[str, list[tuple[datetime, str]]] = {}
    for mail, signal in snapshot.troubles.items():
        at = snapshot.mentions.get(mail)
        if at is not None and now - at < timedelta(days=MAIL_QUIET_DAYS):
            threads.setdefault(thread_of(signal, snapshot.project_key), []).append((at, mail))
    for thread, mails in sorted(threads.items(), key=lambda one: min(one[1])):
        (first, mail), (last, _) = min(mails), max(mails)
        yield _trouble(thread, snapshot.troubles[mail], first, last)


def _trouble(thread: str, signal: Signal, first: datetime, last: datetime) -> Cause:
    return Cause(
        type="risk",
        reference=f"mail:{thread}",
        title=f"A mail speaks of trouble with {name_of(signal.subject)}",
        description=line_of(signal.summary, DETAIL_CHARS_MAX),
        severity="medium",
        mitigation="Read the mail, and decide whether this is a risk",
        source=SIGNALLED,
        flag=signal.key,
        raised=first,
        since=last,
    )
