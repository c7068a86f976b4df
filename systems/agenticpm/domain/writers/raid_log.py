"""Rules for the RAID log: keep people's items, raise each cause once, resolve items whose cause ended.

An item is identified by its `source_reference`: a ticket's key, or `milestone:`, `overdue:`, `sprint:`,
`velocity:`, `cycle_time:` or `mail:` with a name. These rules change only the end of an existing item, and
only of items they raised: a person may set an owner, a date or another severity, and it stays. No item leaves
the log, and no id is used twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from agenticpm.domain.conditions import MilestoneOutlook, compute_outlooks, compute_scope, is_stuck
from agenticpm.domain.contents import RaidItem, RaidLog, format_time, iter_free_ids, parse_as, to_stored
from agenticpm.domain.mail_signals import get_thread
from agenticpm.domain.plain_text import (
    MAX_DETAIL_CHARS,
    format_amount,
    format_day,
    format_number,
    to_line,
    to_name,
)
from agenticpm.domain.thresholds import Thresholds
from agenticpm.domain.tickets import Signal, SignalKind, Snapshot, Ticket, TicketStage, Writing
from agenticpm.domain.trends import Trend, compute_cycle_time, compute_velocity

AGENT_DETECTED: Final = "agent_detected"
INTEGRATION_SIGNAL: Final = "integration_signal"

# Mails of one thread, or about one ticket, are one risk. It ends after this many days without a mail. Anyone
# can write mails, so the number of open mail risks is limited.
MAIL_QUIET_DAYS: Final = 14
MAX_MAIL_RISKS: Final = 10

# The resolution text for each kind of item that the agent detected.
_RESOLUTIONS: Final[Mapping[str, str]] = {
    "milestone": "The milestone is done, can be met again, or has kept its new date for a while",
    "overdue": "The milestone is done, or has a new date",
    "sprint": "The sprint is over, or within its scope again",
    "velocity": "Velocity is no longer falling",
    "cycle_time": "Tickets no longer take longer",
}


@dataclass(frozen=True, slots=True)
class Cause:
    """A current condition and the fields of the RAID item it requires.

    `flag` is the key of its signal; the snapshot's flags say since when it holds.
    """

    type: str
    reference: str
    title: str
    description: str
    severity: str
    mitigation: str
    source: str
    flag: str
    owner: str | None = None
    due_at: datetime | None = None
    raised_at: datetime | None = None
    current_since: datetime | None = None  # if it has no flag


def build_raid_log(writing: Writing, thresholds: Thresholds) -> dict[str, Any]:
    """Build the next content of the RAID log."""
    before = parse_as(RaidLog, writing.previous or {"items": []})
    causes = {each.reference: each for each in _iterate_causes(writing, thresholds)}
    items = [_update_item(each, causes, writing) for each in before.items]
    fresh = [each for each in causes.values() if not _is_known(each, before.items, writing.snapshot)]
    ids = iter_free_ids("R", [each.id for each in before.items])
    raised = [_build_item(each, next(ids), writing.now) for each in _limit_mail_risks(fresh, items)]
    return {"items": items + raised}


def _is_known(cause: Cause, items: Sequence[RaidItem], snapshot: Snapshot) -> bool:
    """Return whether an item already covers the cause.

    It does if it is not resolved, or was resolved while the cause held.
    """
    since = cause.current_since or snapshot.flags.get(cause.flag)
    for item in items:
        if item.source_reference != cause.reference:
            continue
        if item.resolved_date is None or since is None or item.resolved_date >= since:
            return True
    return False


def _limit_mail_risks(fresh: Sequence[Cause], items: Sequence[Mapping[str, Any]]) -> Iterator[Cause]:
    """Yield the causes, but mail causes only up to `MAX_MAIL_RISKS` open ones.

    The other mail causes wait until a mail risk is resolved. `items` are the existing items.
    """
    room = MAX_MAIL_RISKS - sum(
        each["status"] in ("open", "mitigating") and _is_mail_reference(each["source_reference"])
        for each in items
    )
    for each in fresh:
        if _is_mail_reference(each.reference):
            room -= 1
            if room < 0:
                continue
        yield each


def _is_mail_reference(reference: str | None) -> bool:
    return reference is not None and reference.startswith("mail:")


def _build_item(cause: Cause, id: str, now: datetime) -> dict[str, Any]:
    """Build the new RAID item of a cause."""
    return {
        "id": id,
        "type": cause.type,
        "title": cause.title,
        "description": cause.description,
        "severity": cause.severity,
        "status": "open",
        "owner": cause.owner,
        "raised_date": format_time(min(cause.raised_at or now, now)),
        "due_date": format_time(cause.due_at) if cause.due_at else None,
        "mitigation": cause.mitigation,
        "resolution": None,
        "resolved_date": None,
        "source": cause.source,
        "source_reference": cause.reference,
        "last_reviewed": format_time(now),
    }


# --- ends ---------------------------------------------------------------------------------------------------


def _update_item(item: RaidItem, causes: Mapping[str, Cause], writing: Writing) -> dict[str, Any]:
    """Return the item as it is stored, resolved if its cause ended."""
    ending = _find_resolution(item, causes, writing.snapshot)
    if ending is None:
        return to_stored(item)
    ended = {
        "status": "resolved",
        "resolution": ending,
        "resolved_date": format_time(max(writing.now, item.raised_date)),
    }
    return to_stored(item) | ended


def _find_resolution(item: RaidItem, causes: Mapping[str, Cause], snapshot: Snapshot) -> str | None:
    """Return the resolution text of an item raised by these rules whose cause ended, else None."""
    reference = item.source_reference
    if not item.is_active or reference is None or reference in causes:
        return None
    if item.source == AGENT_DETECTED:
        kind, _, name = reference.partition(":")
        came_true = kind == "milestone" and f"overdue:{name}" in causes
        return "It came true: the milestone is overdue" if came_true else _RESOLUTIONS.get(kind)
    if item.source == INTEGRATION_SIGNAL and _is_mail_reference(reference):
        # Once a person works on it, that person resolves it.
        return f"No mail spoke of it for {MAIL_QUIET_DAYS} days" if item.status == "open" else None
    if item.source == INTEGRATION_SIGNAL and item.type == "issue":
        return _describe_ticket_resolution(reference, snapshot.tickets.get(reference))
    return None


def _describe_ticket_resolution(key: str, ticket: Ticket | None) -> str:
    if ticket is None:
        return f"{to_name(key)} is no longer in the project"
    return f"{to_name(key)} is {'done' if ticket.stage is TicketStage.done else 'no longer blocked'}"


# --- causes -------------------------------------------------------------------------------------------------


def _iterate_causes(writing: Writing, thresholds: Thresholds) -> Iterator[Cause]:
    """Yield all current causes: blocked tickets, milestones, scope and trends, mail threads."""
    snapshot = writing.snapshot
    for key in sorted(snapshot.tickets):
        if is_stuck(snapshot.tickets[key]):
            yield _build_blocked(snapshot.tickets[key], snapshot)
    for outlook in compute_outlooks(snapshot, writing.now, thresholds):
        if outlook.status in ("at_risk", "delayed"):
            yield (_build_postponed if outlook.is_only_moved else _build_slipping)(outlook, thresholds)
    yield from _iterate_project_causes(writing, thresholds)
    yield from _iterate_mail_causes(snapshot, writing.now)


def _build_blocked(ticket: Ticket, snapshot: Snapshot) -> Cause:
    """Build the issue of a blocked ticket."""
    key = to_name(ticket.key)
    return Cause(
        type="issue",
        reference=ticket.key,
        title=f"{key} is blocked: {to_name(ticket.title)}",
        description=to_line(ticket.blocked_reason, MAX_DETAIL_CHARS)
        or f"The tracker shows {key} as blocked.",
        severity=str(ticket.priority),
        mitigation=f"Find out what {key} waits for, and who can clear it",
        source=INTEGRATION_SIGNAL,
        flag=f"{SignalKind.blocked}:{ticket.key}",
        owner=to_line(ticket.assignee) or None,
        due_at=ticket.due_at,
        raised_at=snapshot.blocked_since.get(ticket.key, ticket.updated_at),
    )


def _build_slipping(outlook: MilestoneOutlook, thresholds: Thresholds) -> Cause:
    """Build the risk of a milestone that may be late, or the issue of an overdue one."""
    milestone, is_late = outlook.milestone, outlook.status == "delayed"
    name = to_name(milestone.name)
    due = format_day(milestone.due_at) if milestone.due_at else "no date"
    is_far = outlook.late_days >= thresholds.slip_critical_days
    return Cause(
        type="issue" if is_late else "risk",
        reference=f"{'overdue' if is_late else 'milestone'}:{milestone.name}",
        title=f"{name} {'is overdue' if is_late else 'may be late'}",
        description=f"{name} is due on {due}, with {format_amount(outlook.remaining, outlook.unit)} open.",
        severity="critical" if is_late and is_far else "high" if is_late or is_far else "medium",
        mitigation=f"Move the date of {name}, or cut its scope",
        source=AGENT_DETECTED,
        flag=f"{SignalKind.slipping_milestone}:{milestone.name}:{outlook.status}",
        due_at=milestone.due_at,
    )


def _build_postponed(outlook: MilestoneOutlook, thresholds: Thresholds) -> Cause:
    """Build the risk of a milestone whose date was moved and can be met."""
    milestone, move = outlook.milestone, outlook.moved
    assert move is not None, "a milestone with `is_only_moved` has a move"
    name = to_name(milestone.name)
    is_far = move.after - move.before >= timedelta(days=thresholds.slip_critical_days)
    return Cause(
        type="risk",
        reference=f"milestone:{milestone.name}",
        title=f"{name} was put off",
        description=f"{name} was due on {format_day(move.before)} and is due on "
        f"{format_day(move.after)} now, with "
        f"{format_amount(outlook.remaining, outlook.unit)} open.",
        severity="medium" if is_far else "low",
        mitigation=f"Tell those who wait for {name}, and agree on what would keep the new date",
        source=AGENT_DETECTED,
        flag=f"{SignalKind.slipping_milestone}:{milestone.name}:{outlook.news_key}",
        due_at=milestone.due_at,
        raised_at=move.at,
    )


def _iterate_project_causes(writing: Writing, thresholds: Thresholds) -> Iterator[Cause]:
    """Yield the causes about the whole project: scope creep, falling velocity, rising cycle time."""
    snapshot = writing.snapshot
    scope = compute_scope(snapshot, thresholds)
    if scope is not None and scope.share >= thresholds.scope_share:
        name = to_name(scope.sprint.name)
        yield Cause(
            type="risk",
            reference=f"sprint:{scope.sprint.name}",
            title=f"The scope of {name} has grown",
            description=(
                f"{format_amount(scope.added, scope.unit)} came to the {format_number(scope.planned)} "
                "it began with."
            ),
            severity="medium",
            mitigation=f"Agree on what leaves {name}",
            source=AGENT_DETECTED,
            flag=f"{SignalKind.scope_creep}:{scope.sprint.name}",
            due_at=scope.sprint.ends_at,
        )
    if compute_velocity(snapshot, writing.now, thresholds).trend is Trend.decreasing:
        yield _build_trend(
            snapshot, "velocity", "Velocity is falling", "Less is done in a period than before."
        )
    if compute_cycle_time(snapshot.tickets.values(), thresholds).trend is Trend.increasing:
        yield _build_trend(
            snapshot, "cycle_time", "Tickets take longer", "From start to end, more time passes than before."
        )


def _build_trend(snapshot: Snapshot, what: str, title: str, description: str) -> Cause:
    """Build the risk of a trend; `what` is `velocity` or `cycle_time`."""
    return Cause(
        type="risk",
        reference=f"{what}:{snapshot.project_key}",
        title=title,
        description=description,
        severity="medium",
        mitigation="Look for the cause with the team",
        source=AGENT_DETECTED,
        flag=f"{what}_trend:{snapshot.project_key}",
    )


def _iterate_mail_causes(snapshot: Snapshot, now: datetime) -> Iterator[Cause]:
    """Yield one cause for each mail thread of the last 14 days, in the order of their first mails."""
    threads: dict[str, list[tuple[datetime, str]]] = {}
    for mail, signal in snapshot.troubles.items():
        at = snapshot.mentions.get(mail)
        if at is not None and now - at < timedelta(days=MAIL_QUIET_DAYS):
            threads.setdefault(get_thread(signal, snapshot.project_key), []).append((at, mail))
    for thread, mails in sorted(threads.items(), key=lambda one: min(one[1])):
        (first, mail), (last, _) = min(mails), max(mails)
        yield _build_mail_cause(thread, snapshot.troubles[mail], first, last)


def _build_mail_cause(thread: str, signal: Signal, first: datetime, last: datetime) -> Cause:
    """Build the risk of a mail thread. `first` and `last` are the times of its mails."""
    return Cause(
        type="risk",
        reference=f"mail:{thread}",
        title=f"A mail speaks of trouble with {to_name(signal.subject)}",
        description=to_line(signal.summary, MAX_DETAIL_CHARS),
        severity="medium",
        mitigation="Read the mail, and decide whether this is a risk",
        source=INTEGRATION_SIGNAL,
        flag=signal.key,
        raised_at=first,
        current_since=last,
    )
