"""Signal detection: find conditions that need attention in a snapshot and report each once, with evidence.

`detect` finds all conditions that hold, compares them with the flags that are set, and returns the new ones,
most severe first. All it needs from the past is in the snapshot, so a page can be processed again after a
crash, and signals beyond the limit of one commit follow in the next. Conditions that existed before a project
was watched are reported together if there are many. `findings.py` has the finder of each signal;
`mail_signals.py` has those of mails.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from agenticpm.domain.conditions import compute_entries, compute_moves, list_milestones
from agenticpm.domain.findings import Finding, Observation, compute_blocked_since, find_all
from agenticpm.domain.mail_signals import detect_mail_signals
from agenticpm.domain.thresholds import Thresholds
from agenticpm.domain.tickets import FieldChange, Signal, SignalKind, Snapshot, group_by_ticket

__all__ = ["detect", "detect_mail_signals"]

# The flag of an absent ticket is kept this long. A full sync returns tickets page by page, and a ticket that
# has not arrived yet is not new when it does.
ABSENT_DAYS: Final = 30

SEVERITIES: Final = ("critical", "error", "warning", "info")

_TICKET_KINDS: Final = (
    SignalKind.blocked,
    SignalKind.stale,
    SignalKind.missing_criteria,
    SignalKind.new,
    SignalKind.overdue,
    SignalKind.due_soon,
    SignalKind.unassigned,
    SignalKind.on_hold,
)
_PROJECT_KINDS: Final = (
    SignalKind.scope_creep,
    SignalKind.slipping_milestone,
    SignalKind.velocity_trend,
    SignalKind.cycle_time_trend,
    SignalKind.overloaded,
    SignalKind.sprint_at_risk,
    SignalKind.sprint_ended,
)
_RISK_KINDS: Final = (SignalKind.risk_due, SignalKind.risk_overdue, SignalKind.review_due)


def detect(
    before: Snapshot,
    after: Snapshot,
    changes: Sequence[FieldChange],
    *,
    raid_log: Mapping[str, Any] | None,
    now: datetime,
    thresholds: Thresholds,
    limit: int,
    is_complete: bool = True,
    dismissed: Collection[str] = (),
) -> tuple[Snapshot, list[Signal]]:
    """Return the snapshot with its flags and at most `limit` new signals, most severe first.

    Call again with that snapshot for the rest. While more pages follow (`is_complete` is False) only single
    tickets and risks are checked: part of a project has no meaningful scope or velocity. Every finding is
    reported eventually: its flag is set when it is reported. `dismissed` are the keys of signals that a
    person dismissed for good: they are not reported, and not when they begin again either.
    """
    changes_by_ticket = group_by_ticket(changes)
    noted = after.model_copy(
        update={
            "entries": compute_entries(before, after, changes_by_ticket, now),
            "watched_since": after.watched_since or now,
            "moved": compute_moves(after, now, thresholds),
        }
    )
    seen = Observation(before, noted, changes_by_ticket, now, thresholds, is_complete)
    blocked = compute_blocked_since(seen)
    found = _deduplicate(find_all(seen, raid_log))
    flags = _filter_flags(noted, found, raid_log is not None, is_complete, now)
    news = [each for each in found if each.is_new(flags) and each.signal.key not in dismissed]
    reported = sorted(news, key=_get_sort_key)[:limit]
    for each in reported:
        _set_flag(flags, each.flag, each.clears_flag, now)
        for covered in each.covers:
            _set_flag(flags, covered, False, now)
    promised = _update_promised(noted, reported)
    update = {"flags": flags, "promised": promised, "blocked_since": blocked}
    return noted.model_copy(update=update), [each.signal for each in reported]


def _deduplicate(found: Iterable[Finding]) -> list[Finding]:
    """Keep the last of equal findings: two sprints with the same name would report the same twice."""
    return list({(each.signal.key, each.flag): each for each in found}.values())


def _get_sort_key(finding: Finding) -> tuple[int, int, str]:
    """Return the sort key: by severity, kind, then subject."""
    signal = finding.signal
    return SEVERITIES.index(signal.severity), list(SignalKind).index(signal.kind), signal.subject


def _set_flag(flags: dict[str, datetime], flag: str | None, clears_flag: bool, now: datetime) -> None:
    """Set the flag with the time if it is not set, or remove it."""
    if flag is None:
        return
    if clears_flag:
        flags.pop(flag, None)
    else:
        flags.setdefault(flag, now)


def _filter_flags(
    snapshot: Snapshot, found: Sequence[Finding], with_risks: bool, is_complete: bool, now: datetime
) -> dict[str, datetime]:
    """Return the flags to keep: their finding holds, its end is not reported yet, or it was not checked."""
    holding = {each.flag for each in found}

    def stays(flag: str, since: datetime) -> bool:
        if flag in holding:
            return True
        kind, _, subject = flag.partition(":")
        if kind in _RISK_KINDS:
            return not with_risks
        if kind in _PROJECT_KINDS or subject == snapshot.project_key:
            return not is_complete
        return (
            kind in _TICKET_KINDS
            and subject not in snapshot.tickets
            and now - since < timedelta(days=ABSENT_DAYS)
        )

    return {flag: since for flag, since in snapshot.flags.items() if stays(flag, since)}


def _update_promised(snapshot: Snapshot, reported: Sequence[Finding]) -> dict[str, datetime]:
    """Return the due dates of milestones as last reported, by milestone name.

    A later date replaces the old one only when it is reported; an earlier one at once.
    """
    moved = {each.signal.subject for each in reported if each.signal.kind is SignalKind.slipping_milestone}
    due = {each.name: each.due_at for each in list_milestones(snapshot.plan) if each.due_at is not None}
    return {
        name: at if name in moved else min(at, snapshot.promised.get(name, at)) for name, at in due.items()
    }
