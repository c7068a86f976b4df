"""Snapshots of a project's tracker: store and load them as objects, with a checkpoint that points to one.

The object is stored first, and the checkpoint moves in a transaction with everything that follows, so a crash
leaves at worst an unreferenced object. If the object is lost, the tracker is read again, and the events show
which signals were reported.
"""

from __future__ import annotations

import gzip
import hashlib
import zlib
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from pydantic import ValidationError

from agenticpm.domain.tickets import Signal, SignalKind, Snapshot
from agenticpm.model import patterns
from agenticpm.model.entities import Checkpoint, Event, EventType, Project, ProjectId
from agenticpm.model.events import get_now
from holdfast import Put, Stores
from holdfast.core.errors import AlreadyExists, NotFound, ObjectDamaged

SNAPSHOT: Final = "snapshot"
LAST_SYNC: Final = "last_sync"
DELTA_TOKEN: Final = "delta_token"
LAST_WHOLE: Final = "last_whole"
LAST_ASKED: Final = "last_asked"
LAST_CYCLE: Final = "last_cycle"
# The failed parts of the last cycle, or `nothing`; and the missing configuration reported today.
FAILING: Final = "failing"
NOTHING: Final = "nothing"
ABSENT: Final = "absent"
AGENT: Final = "agent"
EVENTS_AT_ONCE: Final = 200


@dataclass(frozen=True)
class SeenCheckpoint:
    """A checkpoint as it was read. `value` is None if there is none."""

    project_id: ProjectId
    integration: str
    key: str
    value: str | None

    def with_value(self, value: str | None) -> SeenCheckpoint:
        """Return the checkpoint with the new value; with None, unchanged."""
        return self if value is None else replace(self, value=value)

    def has_passed(self, interval: timedelta, now: datetime) -> bool:
        """Return whether the interval has passed since the time that is the value, or there is none.

        A clock that was ahead leaves a time in the future, which is not waited for.
        """
        if self.value is None:
            return True
        passed = now - parse_time(self.value)
        return passed >= interval or passed < timedelta(0)

    def build_write(self, stores: Stores, value: str) -> Put[Checkpoint]:
        """Build the write that sets the value, on condition that the stored one is still the one read."""
        wanted = Checkpoint(
            project_id=self.project_id,
            integration=self.integration,
            checkpoint_key=self.key,
            checkpoint_value=value,
            updated_at=get_now(stores.clock),
        )
        return patterns.put_checkpoint(wanted, self.value)


async def read_checkpoint(
    stores: Stores, project_id: ProjectId, integration: str, key: str
) -> SeenCheckpoint:
    """Read one checkpoint of a project; its value is None if there is none."""
    found = await stores.run(patterns.checkpoint(project_id, integration, key))
    return SeenCheckpoint(project_id, integration, key, None if found is None else found.checkpoint_value)


async def load_snapshot(stores: Stores, project: Project, pointer: SeenCheckpoint) -> Snapshot | None:
    """Load the snapshot that the pointer names, or None if there is none or it is unreadable.

    After None the caller reads everything again.
    """
    if pointer.value is None:
        return None
    try:
        body = await stores.run(patterns.kept_snapshot(project.id, pointer.value))
        return Snapshot.model_validate_json(gzip.decompress(body.body))
    except (NotFound, ObjectDamaged, ValidationError, OSError, EOFError, zlib.error):
        return None


async def store_snapshot(stores: Stores, project: Project, snapshot: Snapshot) -> str:
    """Store the snapshot as a compressed object, unless it exists, and return its name (SHA-256)."""
    # mtime=0: the same content must compress to the same bytes.
    body = gzip.compress(snapshot.model_dump_json(exclude_defaults=True).encode(), mtime=0)
    sha256 = hashlib.sha256(body).hexdigest()
    try:
        await stores.run(patterns.keep_snapshot(body, project.id, sha256))
    except AlreadyExists:
        pass
    return sha256


def build_empty_snapshot(project: Project) -> Snapshot:
    return Snapshot(source=project.source, project_key=project.source_project_key)


async def rebuild_from_events(stores: Stores, project: Project) -> Snapshot:
    """Build a snapshot without tickets but with the flags and mails of the events.

    With it, a full sync reports nothing twice. It is empty if the project never had a snapshot.
    """
    empty = build_empty_snapshot(project)
    pointer = await stores.run(patterns.checkpoint(project.id, project.source, SNAPSHOT))
    if pointer is None:
        return empty
    flags: dict[str, datetime | None] = {}
    mentions: dict[str, datetime] = {}
    troubles: dict[str, Signal] = {}
    async for event in stores.each(patterns.project_events(project.id, EVENTS_AT_ONCE)):
        if event.event_type != EventType.signal_detected or (signal := _parse_signal(event)) is None:
            continue
        if signal.kind is SignalKind.mail_mention:
            mails = {each.ticket: each.at or event.created_at for each in signal.evidence if each.ticket}
            mentions |= mails
            troubles |= dict.fromkeys(mails, signal) if signal.severity != "info" else {}
        # Events come newest first: the first one of a flag is its current state.
        for flag in _get_flags(signal):
            flags.setdefault(flag, None if _clears_flag(signal) else event.created_at)
    up = {flag: since for flag, since in flags.items() if since is not None}
    found = {
        "flags": up,
        "mentions": mentions,
        "troubles": troubles,
        "watched_since": pointer.updated_at,
    }
    return empty.model_copy(update=found)


def _parse_signal(event: Event) -> Signal | None:
    """Return the signal that an event stores, or None if its detail is not a valid one."""
    detail = event.detail or {}
    fields = {name: detail.get(name) for name in ("subject", "summary", "evidence")}
    try:
        return Signal.model_validate({"kind": detail.get("signal"), "severity": event.severity, **fields})
    except ValidationError:
        return None


def _get_flags(signal: Signal) -> tuple[str, ...]:
    """Return the flags that the signal sets or clears.

    A milestone's flag contains its status; flags that no longer hold are removed by the next detection.
    """
    if signal.kind is SignalKind.unblocked:
        return (f"{SignalKind.blocked}:{signal.subject}",)
    if signal.kind is SignalKind.slipping_milestone:
        return tuple(f"{signal.key}:{status}" for status in ("at_risk", "moved", "delayed"))
    return (signal.key,)


def _clears_flag(signal: Signal) -> bool:
    """Return whether the signal reports the end of a condition."""
    is_trend = signal.kind in (SignalKind.velocity_trend, SignalKind.cycle_time_trend)
    return signal.kind is SignalKind.unblocked or (is_trend and signal.severity == "info")


def format_time(moment: datetime) -> str:
    """Format a time as a checkpoint stores it."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_time(text: str) -> datetime:
    """Parse a time as a checkpoint stores it."""
    return datetime.fromisoformat(text)
