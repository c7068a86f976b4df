"""What was last seen of a project's tracker: an object named by its content, and a checkpoint that points to it.

The object is put first and the checkpoint moves in a transaction with all that follows from it, so that a crash leaves
at the worst an object that nothing points to. Where the object is lost, the tracker is read anew, and what people were told
already is found in the events.
"""

from __future__ import annotations

import gzip
import hashlib
import zlib
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from pydantic import ValidationError

from agenticpm import patterns
from agenticpm.events import moment
from agenticpm.model import Checkpoint, Event, EventType, Project, ProjectId
from agenticpm.tickets import Signal, SignalKind, Snapshot
from holdfast import Put, Stores
from holdfast.errors import AlreadyThere, NotFound, ObjectDamaged

SNAPSHOT: Final = "snapshot"
LAST_SYNC: Final = "last_sync"
DELTA_TOKEN: Final = "delta_token"
LAST_WHOLE: Final = "last_whole"
LAST_ASKED: Final = "last_asked"
LAST_CYCLE: Final = "last_cycle"
# Which parts of the last cycle failed, or nothing; and which absence was told today.
FAILING: Final = "failing"
NOTHING: Final = "nothing"
ABSENT: Final = "absent"
AGENT: Final = "agent"
EVENTS_AT_ONCE: Final = 200


@dataclass(frozen=True)
class Mark:
    """A checkpoint as it was read. `value` is None where there is none."""

    project_id: ProjectId
    integration: str
    key: str
    value: str | None

    def at(self, value: str | None) -> Mark:
        """As it stands after it was moved; without a value it was not."""
        return self if value is None else replace(self, value=value)

    def moved(self, stores: Stores, value: str) -> Put[Checkpoint]:
        """The write that moves it, if nobody else has meanwhile."""
        wanted = Checkpoint(
            project_id=self.project_id,
            integration=self.integration,
            checkpoint_key=self.key,
            checkpoint_value=value,
            updated_at=moment(stores.clock),
        )
        return patterns.put_checkpoint(wanted, self.value)


async def mark(stores: Stores, project_id: ProjectId, integration: str, key: str) -> Mark:
    found = await stores.run(patterns.checkpoint(project_id, integration, key))
    return Mark(project_id, integration, key, None if found is None else found.checkpoint_value)


async def last_seen(stores: Stores, project: Project, pointer: Mark) -> Snapshot | None:
    """None where nothing was seen yet, or what was seen cannot be read: then everything is read anew."""
    if pointer.value is None:
        return None
    try:
        body = await stores.run(patterns.kept_snapshot(project.id, pointer.value))
        return Snapshot.model_validate_json(gzip.decompress(body.body))
    except (NotFound, ObjectDamaged, ValidationError, OSError, EOFError, zlib.error):
        return None


async def keep(stores: Stores, project: Project, snapshot: Snapshot) -> str:
    """Puts it, and gives the name to point to."""
    # The same content has the same bytes: no time of packing stands in them.
    body = gzip.compress(snapshot.model_dump_json(exclude_defaults=True).encode(), mtime=0)
    sha256 = hashlib.sha256(body).hexdigest()
    try:
        await stores.run(patterns.keep_snapshot(body, project.id, sha256))
    except AlreadyThere:
        pass
    return sha256


def nothing_seen(project: Project) -> Snapshot:
    return Snapshot(source=project.source, project_key=project.source_project_key)


async def told_before(stores: Stores, project: Project) -> Snapshot:
    """Nothing of the tracker, and what people were told as the events have it: read anew, nothing is told twice."""
    empty = nothing_seen(project)
    pointer = await stores.run(patterns.checkpoint(project.id, project.source, SNAPSHOT))
    if pointer is None:
        return empty
    flags: dict[str, datetime | None] = {}
    mentions: dict[str, datetime] = {}
    troubles: dict[str, Signal] = {}
    async for event in stores.each(patterns.project_events(project.id, EVENTS_AT_ONCE)):
        if event.event_type != EventType.signal_detected or (signal := _signal_of(event)) is None:
            continue
        if signal.kind is SignalKind.mail_mention:
            mails = {each.ticket: each.at or event.created_at for each in signal.evidence if each.ticket}
            mentions |= mails
            troubles |= dict.fromkeys(mails, signal) if signal.severity != "info" else {}
        # Newest first: what was told last is what stands.
        for flag in _flags_of(signal):
            flags.setdefault(flag, None if _ends(signal) else event.created_at)
    up = {flag: since for flag, since in flags.items() if since is not None}
    found = {
        "flags": up,
        "mentions": mentions,
        "troubles": troubles,
        "watched_since": pointer.updated_at,
    }
    return empty.model_copy(update=found)


def _signal_of(event: Event) -> Signal | None:
    detail = event.detail or {}
    told = {name: detail.get(name) for name in ("subject", "summary", "evidence")}
    try:
        return Signal.model_validate({"kind": detail.get("signal"), "severity": event.severity, **told})
    except ValidationError:
        return None


def _flags_of(signal: Signal) -> tuple[str, ...]:
    """The flags that went up or down with it. How much a milestone slips stands in its flag: those that do not stand now
    are taken down at the next look."""
    if signal.kind is SignalKind.unblocked:
        return (f"{SignalKind.blocked}:{signal.subject}",)
    if signal.kind is SignalKind.slipping_milestone:
        return tuple(f"{signal.key}:{status}" for status in ("at_risk", "moved", "delayed"))
    return (signal.key,)


def _ends(signal: Signal) -> bool:
    is_trend = signal.kind in (SignalKind.velocity_trend, SignalKind.cycle_time_trend)
    return signal.kind is SignalKind.unblocked or (is_trend and signal.severity == "info")


def text_of(moment: datetime) -> str:
    """A time as a checkpoint holds it."""
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def moment_of(text: str) -> datetime:
    return datetime.fromisoformat(text)
