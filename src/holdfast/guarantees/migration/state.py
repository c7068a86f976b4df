"""What is kept of a migration, beside the tables it moves: where it stands, and the work under way.

They are two items. The state is read and checked by every writer of the source; the work is written all the time by
the one process that does it. Kept apart, the one does not get in the way of the other.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from holdfast.model import Attr, Document, Entity, Key, Table, as_written, attr

MIGRATIONS: Final = Table(
    "Migrations",
    "migration",
    "part",
    names=as_written,
    recovery=True,
    purpose="How far each live migration is, and who runs it",
)


class Phase(StrEnum):
    """How far a migration is. Before the first of these there is no state at all."""

    PREPARED = "prepared"  # the target is there, changes are followed
    BACKFILLED = "backfilled"
    VERIFIED = "verified"
    SWITCHING = "switching"  # writers of the source wait
    SWITCHED = "switched"  # the target is the truth, and stays so
    REMOVED = "removed"


# The source may be written while there is no state, or in one of these.
SOURCE_IS_OPEN: Final = (Phase.PREPARED, Phase.BACKFILLED, Phase.VERIFIED)
TARGET_IS_TRUTH: Final = (Phase.SWITCHED, Phase.REMOVED)


class MigrationState(Entity, table=MIGRATIONS):
    """Where a migration stands. `rows` and `checksum` are what both sides held at the switch."""

    migration: Attr[str] = attr()
    phase: Attr[Phase]
    # A switch under way: its token, and until when writers wait for it.
    hold: Attr[str | None] = attr(default=None)
    hold_until: Attr[datetime | None] = attr(default=None)
    rows: Attr[int | None] = attr(default=None)
    checksum: Attr[str | None] = attr(default=None)
    started_at: Attr[datetime]
    changed_at: Attr[datetime]

    of = Key(migration, "STATE")


class ShardPlace(Document):
    """The last change of a shard that was followed. Order between shards does not matter: see `changes`."""

    sequence: int | None = None
    is_done: bool = False


class SegmentPlace(Document):
    """How far a part of the source has been copied."""

    after: dict[str, Any] | None = None
    is_done: bool = False


class MigrationWork(Entity, table=MIGRATIONS):
    """Who runs a migration, until when unless a sign of life comes, and where to go on."""

    migration: Attr[str] = attr()
    holder: Attr[str]
    until: Attr[datetime]
    stream: Attr[str | None] = attr(default=None)
    shards: Attr[dict[str, ShardPlace]] = attr(default_factory=dict)
    segments: Attr[list[SegmentPlace]] = attr(default_factory=list)
    copied: Attr[int] = attr(default=0)
    # Rows that the target had already, or that changed while they were copied: the stream brings those.
    passed_over: Attr[int] = attr(default=0)
    followed: Attr[int] = attr(default=0)
    repaired: Attr[int] = attr(default=0)
    # How often the stream had forgotten changes before they were read. The verification makes up for it.
    gaps: Attr[int] = attr(default=0)

    of = Key(migration, "WORK")
