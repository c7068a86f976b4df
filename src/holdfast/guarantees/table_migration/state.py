"""The stored state of migrations: entities for the phase and for the work in progress, in one table.

They are two items. Every writer of the source reads and checks the state; the running process writes the work
all the time. Apart, they do not conflict.
"""

from __future__ import annotations

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, PlainSerializer

from holdfast.guarantees.lifetimes import declare_retention
from holdfast.guarantees.resilience.lease import LeaseRecord
from holdfast.model.entities import Attr, Document, Entity, Key, attr, format_timestamp
from holdfast.model.tables import Table, keep_names

MIGRATIONS: Final = Table(
    "Migrations",
    "migration",
    "part",
    naming=keep_names,
    point_in_time_recovery=True,
    purpose="Progress and owner of each live migration",
)
"""The table of migrations. Add it to the tables of a system that migrates a table."""


class Phase(StrEnum):
    """The phase of a migration. Before the first one there is no state."""

    PREPARED = "prepared"  # the target exists, changes are followed
    BACKFILLED = "backfilled"
    VERIFIED = "verified"
    SWITCHING = "switching"  # writers of the source wait
    SWITCHED = "switched"  # the target is authoritative, and stays so
    REMOVED = "removed"


# The source may be written without a state, or in one of these phases.
SOURCE_PHASES: Final = (Phase.PREPARED, Phase.BACKFILLED, Phase.VERIFIED)
TARGET_PHASES: Final = (Phase.SWITCHED, Phase.REMOVED)


class MigrationState(Entity, table=MIGRATIONS):
    """The state of a migration. `rows` and `checksum` are those of both tables at the switch."""

    migration: Attr[str] = attr()
    phase: Attr[Phase]
    # A switch in progress: its token, and until when writers wait for it.
    hold: Attr[str | None] = attr(default=None)
    hold_until: Attr[datetime | None] = attr(default=None)
    rows: Attr[int | None] = attr(default=None)
    checksum: Attr[str | None] = attr(default=None)
    started_at: Attr[datetime]
    changed_at: Attr[datetime]

    of = Key(migration, "STATE")


class ShardPosition(Document):
    """The last applied change of a shard. The order between shards does not matter: see `change_stream`."""

    sequence: int | None = None
    is_done: bool = False


class SegmentPosition(Document):
    """The copied part of a segment of the source."""

    after: dict[str, Any] | None = None
    is_done: bool = False


declare_retention(MigrationState, None, "one record per migration: its result")


def _parse_time(value: Any) -> Any:
    """Return a stored time as epoch seconds, and any other value unchanged."""
    return datetime.fromisoformat(value).timestamp() if isinstance(value, str) else value


def _format_time(moment: float) -> str:
    return format_timestamp(datetime.fromtimestamp(moment, UTC))


class MigrationWork(LeaseRecord, table=MIGRATIONS):
    """The lease of the process that runs a migration, and the positions that it has saved."""

    name: Attr[str] = attr("migration")
    # Absent in records of version 0.2 and before.
    token: Attr[int] = attr(default=0)
    # Stored as text, as every version did.
    until: Attr[Annotated[float, BeforeValidator(_parse_time), PlainSerializer(_format_time)]]
    stream: Attr[str | None] = attr(default=None)
    shards: Attr[dict[str, ShardPosition]] = attr(default_factory=dict)
    segments: Attr[list[SegmentPosition]] = attr(default_factory=list)
    copied: Attr[int] = attr(default=0)
    # Rows that existed in the target, or changed while they were copied: the stream brings those.
    passed_over: Attr[int] = attr(default=0)
    followed: Attr[int] = attr(default=0)
    repaired: Attr[int] = attr(default=0)
    # Number of times that the stream dropped changes before they were read. The verification finds them.
    gaps: Attr[int] = attr(default=0)

    of = Key(name, "WORK")
