"""The progress report of a migration, read from its stored state."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from holdfast.core.errors import NotFound
from holdfast.guarantees.table_migration.declaration import Migration, get_migration_state
from holdfast.guarantees.table_migration.state import MigrationWork, Phase
from holdfast.runtime import Stores


@dataclass(frozen=True)
class MigrationReport:
    """The progress of a migration. `phase` is None if it was never started."""

    migration: str
    phase: Phase | None
    rows: int | None = None
    checksum: str | None = None
    copied: int = 0
    passed_over: int = 0
    followed: int = 0
    repaired: int = 0
    gaps: int = 0
    # Segments of the source that have been copied, and all segments.
    segments_done: int = 0
    segments: int = 0
    started_at: datetime | None = None
    changed_at: datetime | None = None


async def get_status(migration: Migration[Any, Any], stores: Stores) -> MigrationReport:
    """Return the progress of a migration. Nothing is written."""
    try:
        state = await stores.run(get_migration_state(migration.name))
        work = await stores.run(MigrationWork.of(migration.name).get().consistent())
    except NotFound:
        return MigrationReport(migration.name, None)
    report = MigrationReport(migration.name, None)
    if state is not None:
        report = replace(
            report,
            phase=state.phase,
            rows=state.rows,
            checksum=state.checksum,
            started_at=state.started_at,
            changed_at=state.changed_at,
        )
    if work is not None:
        report = replace(
            report,
            copied=work.copied,
            passed_over=work.passed_over,
            followed=work.followed,
            repaired=work.repaired,
            gaps=work.gaps,
            segments_done=sum(segment.is_done for segment in work.segments),
            segments=len(work.segments),
        )
    return report
