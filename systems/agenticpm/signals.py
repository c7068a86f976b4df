"""Signals: what calls for attention in a snapshot, each told once, with its evidence.

`detect` finds all that stands, compares it with the flags that are up, and tells what is new, the most severe first. All
that it needs to know of the past is in the snapshot, so that a page may be looked at again after a crash, and what one
commit had no room for is told in the next. What was so before a project came under watch is told at once where it is much,
and not ticket by ticket. What each signal says is in `findings.py`; those of mails are in `mail_signals.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from agenticpm.findings import Finding, Seen, blocked_since, findings
from agenticpm.mail_signals import mail_signals
from agenticpm.standing import entries_of, milestones_of, moves_of
from agenticpm.thresholds import Thresholds
from agenticpm.tickets import FieldChange, Signal, SignalKind, Snapshot, by_ticket

__all__ = ["detect", "mail_signals"]

# How long the flag of a ticket outlives it. A tracker that is read anew tells its tickets page by page: those that are
# not there yet are not news when they come.
ABSENT_DAYS: Final = 30

SEVERITIES: Final = ("critical", "error", "warning", "info")

_OF_A_TICKET: Final = (SignalKind.blocked, SignalKind.stale, SignalKind.missing_criteria, SignalKind.new)
_OF_THE_WHOLE: Final = (
    SignalKind.scope_creep,
    SignalKind.slipping_milestone,
    SignalKind.velocity_trend,
    SignalKind.cycle_time_trend,
)
_OF_A_RISK: Final = (SignalKind.risk_due, SignalKind.risk_overdue, SignalKind.review_due)


def detect(
    before: Snapshot,
    after: Snapshot,
    changes: Sequence[FieldChange],
    *,
    raid_log: Mapping[str, Any] | None,
    now: datetime,
    thresholds: Thresholds,
    most: int,
    is_whole: bool = True,
) -> tuple[Snapshot, list[Signal]]:
    """The snapshot with its flags, and at most `most` new signals. With the snapshot that comes back, the rest.

    While more pages follow (`is_whole` is False) only single tickets are looked at: half a project has no scope and no
    pace. Nothing is looked at without being told in the end: a signal's flag goes up when it is told.
    """
    told_of = by_ticket(changes)
    noted = after.model_copy(
        update={
            "entries": entries_of(before, after, told_of, now),
            "watched_since": after.watched_since or now,
            "moved": moves_of(after, now, thresholds),
        }
    )
    seen = Seen(before, noted, told_of, now, thresholds, is_whole)
    blocked = blocked_since(seen)
    found = _each_once(findings(seen, raid_log))
    flags = _kept_flags(noted, found, raid_log is not None, is_whole, now)
    news = [each for each in found if each.is_news(flags)]
    told = sorted(news, key=_importance)[:most]
    for each in told:
        _turn(flags, each.flag, each.ends, now)
        for covered in each.covers:
            _turn(flags, covered, False, now)
    promised = _promised(noted, told)
    kept = {"flags": flags, "promised": promised, "blocked_since": blocked}
    return noted.model_copy(update=kept), [each.signal for each in told]


def _each_once(found: Iterable[Finding]) -> list[Finding]:
    """Two sprints of one name would tell the same twice."""
    return list({(each.signal.key, each.flag): each for each in found}.values())


def _importance(finding: Finding) -> tuple[int, int, str]:
    signal = finding.signal
    return SEVERITIES.index(signal.severity), list(SignalKind).index(signal.kind), signal.subject


def _turn(flags: dict[str, datetime], flag: str | None, ends: bool, now: datetime) -> None:
    if flag is None:
        return
    if ends:
        flags.pop(flag, None)
    else:
        flags.setdefault(flag, now)


def _kept_flags(
    snapshot: Snapshot, found: Sequence[Finding], with_risks: bool, is_whole: bool, now: datetime
) -> dict[str, datetime]:
    """Those that still stand, those whose end is yet to be told, and those that were not looked at."""
    stand = {each.flag for each in found}

    def stays(flag: str, since: datetime) -> bool:
        if flag in stand:
            return True
        kind, _, subject = flag.partition(":")
        if kind in _OF_A_RISK:
            return not with_risks
        if kind in _OF_THE_WHOLE or subject == snapshot.project_key:
            return not is_whole
        return (
            kind in _OF_A_TICKET
            and subject not in snapshot.tickets
            and now - since < timedelta(days=ABSENT_DAYS)
        )

    return {flag: since for flag, since in snapshot.flags.items() if stays(flag, since)}


def _promised(snapshot: Snapshot, told: Sequence[Finding]) -> dict[str, datetime]:
    """When milestones are due, as people were told. One that moved later stays as it was until it is told."""
    moved = {each.signal.subject for each in told if each.signal.kind is SignalKind.slipping_milestone}
    due = {each.name: each.due_at for each in milestones_of(snapshot.plan) if each.due_at is not None}
    return {
        name: at if name in moved else min(at, snapshot.promised.get(name, at)) for name, at in due.items()
    }
