"""Events: made here and nowhere else, so that each stands in its project and in the feed of all, under one ULID."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final
from weakref import WeakKeyDictionary

from agenticpm import patterns
from agenticpm.model import GLOBAL, Event, EventType, ProjectId, Severity, day_of, scope_of
from holdfast import Put, Stores, Ulids
from holdfast.clock import Clock

SUMMARY_CHARS_MAX: Final = 300


def moment(clock: Clock) -> datetime:
    """Now, in thousandths: the form in which times are kept."""
    now = datetime.fromtimestamp(clock.now(), UTC)
    return now.replace(microsecond=now.microsecond // 1000 * 1000)


def ulid(clock: Clock) -> str:
    """A new id. Those of one process count up, also within a thousandth: what was made later sorts later."""
    with _LOCK:
        if clock not in _ULIDS:
            _ULIDS[clock] = Ulids(clock)
        return _ULIDS[clock].new()


_LOCK: Final = threading.Lock()
_ULIDS: Final[WeakKeyDictionary[Clock, Ulids]] = WeakKeyDictionary()


def recorded(
    stores: Stores,
    project_id: ProjectId | None,
    type: EventType | str,
    summary: str,
    detail: Mapping[str, Any] | None = None,
    *,
    severity: Severity = Severity.info,
    at: datetime | None = None,
    id: str | None = None,
) -> tuple[Put[Event], ...]:
    """The writes of an event, for a transaction with what it tells about: in full, and as a reference in the feed.

    An event of no project stands in the feed itself, in full and once. What must be told once, whoever tells it, is told
    `at` a time and under an `id` that all of them would give: the second is refused.
    """
    at = at or moment(stores.clock)
    event = Event(
        scope=scope_of(project_id),
        id=id or ulid(stores.clock),
        project_id=project_id,
        event_type=str(type),
        severity=severity,
        summary=summary[:SUMMARY_CHARS_MAX],
        detail=None if detail is None else dict(detail),
        created_at=at,
        day=day_of(at),
    )
    if project_id is None:
        return (patterns.record_event(event),)
    reference = event.model_copy(update={"scope": GLOBAL, "detail": None, "day": None})
    return (patterns.record_event(event), patterns.record_reference(reference))
