"""Event building: the writes of an event in its project and of its reference in the global feed.

This is the only place that builds events, so both writes always have the same ULID.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final
from weakref import WeakKeyDictionary

from agenticpm.model import patterns
from agenticpm.model.entities import GLOBAL, Event, EventType, ProjectId, Severity, get_scope, get_utc_day
from holdfast import Put, Stores
from holdfast.core.clock import Clock
from holdfast.model.ulids import UlidGenerator

MAX_SUMMARY_CHARS: Final = 300


def get_now(clock: Clock) -> datetime:
    """Return the current UTC time, cut to milliseconds, the precision in which times are stored."""
    now = datetime.fromtimestamp(clock.now(), UTC)
    return now.replace(microsecond=now.microsecond // 1000 * 1000)


def new_ulid(clock: Clock) -> str:
    """Return a new ULID. The ids of one process increase, also within a millisecond."""
    with _LOCK:
        if clock not in _ULIDS:
            _ULIDS[clock] = UlidGenerator(clock)
        return _ULIDS[clock].new()


_LOCK: Final = threading.Lock()
_ULIDS: Final[WeakKeyDictionary[Clock, UlidGenerator]] = WeakKeyDictionary()


def build_event_writes(
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
    """Build the writes of an event, for the transaction that it reports.

    They are the full event and its reference in the global feed; an event without a project is stored in the
    feed itself, in full. For an event that several processes may report, give the `at` and `id` that all of
    them compute: the second write is refused.
    """
    at = at or get_now(stores.clock)
    event = Event(
        scope=get_scope(project_id),
        id=id or new_ulid(stores.clock),
        project_id=project_id,
        event_type=str(type),
        severity=severity,
        summary=summary[:MAX_SUMMARY_CHARS],
        detail=None if detail is None else dict(detail),
        created_at=at,
        day=get_utc_day(at),
    )
    if project_id is None:
        return (patterns.record_event(event),)
    reference = event.model_copy(update={"scope": GLOBAL, "detail": None, "day": None})
    return (patterns.record_event(event), patterns.record_reference(reference))
