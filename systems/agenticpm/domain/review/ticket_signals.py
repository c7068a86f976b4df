"""Signals of single tickets, and of the people who work on them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from agenticpm.domain.conditions import count_working_days
from agenticpm.domain.plain_text import format_count, format_day, to_line
from agenticpm.domain.reading import vocabulary as words
from agenticpm.domain.reading.criteria import has_criteria
from agenticpm.domain.reading.sentences import split_sentences
from agenticpm.domain.review.findings import ReviewKind, ReviewSignal, Severity
from agenticpm.domain.review.names import (
    is_bug_type,
    is_incident_label,
    is_incident_type,
    is_ready_status,
    is_story_type,
)
from agenticpm.domain.review.observation import Observation
from agenticpm.domain.review.records import WorkItem
from agenticpm.domain.tickets import Priority, TicketStage

# A ticket that is back this soon was moved by mistake.
MISTAKE: Final = timedelta(minutes=10)
_HIGH: Final = (Priority.critical, Priority.high)
_PRODUCTION_TITLE: Final = re.compile(r"^\W*(?:prod(?:uction)?|live|produktion|producción)\b\W*[:\])-]", re.I)


def find_ticket_signals(seen: Observation) -> Iterator[ReviewSignal]:
    """Yield the signals of every open ticket, and those of people."""
    for item in seen.open_items:
        for find in _FINDERS:
            if (found := find(seen, item)) is not None:
                yield found
    yield from _find_overloaded(seen)


def _build(item: WorkItem, kind: ReviewKind, severity: Severity, why: str) -> ReviewSignal:
    return ReviewSignal(kind, severity, item.key, f"{item.key} ({to_line(item.title, 80)}): {why}")


def _find_due(seen: Observation, item: WorkItem) -> ReviewSignal | None:
    """Find an open ticket whose due date is past or near."""
    if item.due is None:
        return None
    days = (item.due - seen.today).days
    if days < 0:
        is_severe = seen.judge_priority(item) in _HIGH or -days > seen.thresholds.very_overdue_days
        why = f"was due on {item.due.isoformat()}, {format_count(-days, 'day')} ago, and is {item.status}"
        return _build(item, ReviewKind.overdue, Severity.high if is_severe else Severity.medium, why)
    if days <= seen.thresholds.due_soon_days:
        why = f"is due on {item.due.isoformat()}, in {format_count(days, 'day')}, and is {item.status}"
        return _build(item, ReviewKind.due_soon, Severity.low, why)
    return None


def _find_unassigned(seen: Observation, item: WorkItem) -> ReviewSignal | None:
    priority = seen.judge_priority(item)
    if item.assignee is not None or priority not in _HIGH:
        return None
    severity = Severity.high if priority is Priority.critical else Severity.medium
    return _build(item, ReviewKind.unassigned, severity, f"has priority {item.priority} and no assignee")


def _find_stale(seen: Observation, item: WorkItem) -> ReviewSignal | None:
    """Find a ticket in progress on which nothing happened; an epic moves by its tickets."""
    if not item.is_started or item.is_epic or seen.is_held(item):
        return None
    children = [each for each in seen.project.list_children(item.key) if each.is_open]
    last = max(seen.find_last_activity(each) for each in (item, *children))
    days = count_working_days(last, seen.now)
    if days < seen.thresholds.stale_working_days:
        return None
    why = f"is in progress ({item.status}) and nobody did anything on it since {format_day(last)}"
    return _build(item, ReviewKind.stale, Severity.medium, why)


def _find_blocked(seen: Observation, item: WorkItem) -> ReviewSignal | None:
    if (reason := seen.find_block(item)) is None:
        return None
    is_severe = seen.judge_priority(item) in _HIGH
    return _build(item, ReviewKind.blocked, Severity.high if is_severe else Severity.medium, reason)


def _find_on_hold(seen: Observation, item: WorkItem) -> ReviewSignal | None:
    if item.is_epic or (reason := seen.find_hold(item)) is None:
        return None
    return _build(item, ReviewKind.on_hold, Severity.medium, reason)


def _find_reopened(seen: Observation, item: WorkItem) -> ReviewSignal | None:
    """Find an open ticket that was done before, unless that was a mistake of minutes."""
    done_at: datetime | None = None
    back_at: datetime | None = None
    for change in item.changes:
        if change.field != "status":
            continue
        was_done, is_done = (_is_done(seen, each) for each in (change.before, change.after))
        if is_done and not was_done:
            done_at = change.at
        elif was_done and not is_done and (done_at is None or change.at - done_at > MISTAKE):
            back_at = change.at
    if back_at is None:
        return None
    why = f"was done and is back in {item.status} since {format_day(back_at)}"
    return _build(item, ReviewKind.reopened, Severity.medium, why)


def _is_done(seen: Observation, status: str) -> bool:
    known = seen.project.stages.get(status.casefold())
    if known is not None:
        return known is TicketStage.done
    return bool(
        re.match(r"(?:done|closed|resolved|released|fertig|erledigt|terminé|hecho|cerrado)\b", status, re.I)
    )


# --- incidents ----------------------------------------------------------------------------------------------


def _find_incident(seen: Observation, item: WorkItem) -> ReviewSignal | None:
    """Find an open incident, or a bug in production."""
    why = explain_incident(item)
    if why is None:
        return None
    severity = {Priority.critical: Severity.critical, Priority.high: Severity.critical}.get(
        seen.judge_priority(item), Severity.high
    )
    return _build(item, ReviewKind.incident, severity, f"{why}, and is {item.status}")


def explain_incident(item: WorkItem) -> str | None:
    """Return why an open ticket is an incident, or None."""
    if not item.is_open or item.is_epic:
        return None
    if is_incident_type(item.type):
        return f"is of type {item.type}"
    if not is_bug_type(item.type):
        return None
    if label := next((each for each in item.labels if is_incident_label(each)), None):
        return f"is a bug with the label {label}"
    for text in (item.title, item.environment, item.description):
        for sentence in split_sentences(text) if text is item.description else (text,):
            said = sentence if isinstance(sentence, str) else sentence.text
            if _is_about_production(said):
                return f"is a bug in production (“{to_line(said)}”)"
    return None


def _is_about_production(text: str) -> bool:
    if words.NOT_PRODUCTION.search(text):
        return False
    return bool(_PRODUCTION_TITLE.search(text) or words.PRODUCTION.search(text))


# --- acceptance criteria ------------------------------------------------------------------------------------


def _find_missing_criteria(seen: Observation, item: WorkItem) -> ReviewSignal | None:
    """Find a story in an active sprint, or ready for the next, without any form of criteria."""
    if not is_story_type(item.type) or item.is_epic or item.has_checklist:
        return None
    in_sprint = next((each for each in seen.active_sprints if {each.id, each.name} & set(item.sprints)), None)
    if in_sprint is None and not (item.stage is TicketStage.to_do and is_ready_status(item.status)):
        return None
    if has_criteria(item.description) or any(has_criteria(each.text) for each in item.human_comments):
        return None
    where = f"is in {in_sprint.name}" if in_sprint else f"is {item.status}"
    return _build(
        item, ReviewKind.no_acceptance_criteria, Severity.low, f"{where} without acceptance criteria"
    )


# --- people -------------------------------------------------------------------------------------------------


def _find_overloaded(seen: Observation) -> Iterator[ReviewSignal]:
    """Find one person with far more tickets in progress than everybody else."""
    loads: dict[str, list[WorkItem]] = {}
    names: dict[str, str] = {}
    for item in seen.project.items:
        if item.assignee is None or item.assignee.is_bot:
            continue
        names[item.assignee.id] = item.assignee.name
        load = loads.setdefault(item.assignee.id, [])
        if item.is_started and not item.is_epic and seen.find_hold(item) is None:
            load.append(item)
    ranked = sorted(loads, key=lambda each: (-len(loads[each]), each))
    if len(ranked) < 2:
        return
    top, others = loads[ranked[0]], [len(loads[each]) for each in ranked[1:]]
    limits = seen.thresholds
    if len(top) < limits.overload_tickets or len(top) < max(others) * limits.overload_factor:
        return
    keys = ", ".join(sorted((each.key for each in top), key=lambda key: (len(key), key)))
    evidence = (
        f"{names[ranked[0]]} has {len(top)} tickets in progress ({keys}); "
        f"nobody else has more than {max(others)}"
    )
    yield ReviewSignal(ReviewKind.overloaded, Severity.medium, None, evidence, names[ranked[0]])


_FINDERS: Final = (
    _find_incident,
    _find_blocked,
    _find_due,
    _find_unassigned,
    _find_reopened,
    _find_on_hold,
    _find_stale,
    _find_missing_criteria,
)
