"""How far a migration is, for whoever asks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from holdfast.errors import NotFound
from holdfast.guarantees.migration.declaration import Migration, state_of
from holdfast.guarantees.migration.state import MigrationWork, Phase
from holdfast.runtime import Stores


@dataclass(frozen=True)
class Report:
    """How far a migration is, and what it has done. `phase` is None where it was never begun."""

    migration: str
    phase: Phase | None
    rows: int | None = None
    checksum: str | None = None
    copied: int = 0
    passed_over: int = 0
    followed: int = 0
    repaired: int = 0
    gaps: int = 0
    # What part of the source has been copied, as segments done and all.
    segments_done: int = 0
    segments: int = 0
    started_at: datetime | None = None
    changed_at: datetime | None = None


async def status(migration: Migration[Any, Any], stores: Stores) -> Report:
    """How far a migration is. Nothing is written."""
    try:
        state = await stores.run(state_of(migration.name))
        work = await stores.run(MigrationWork.of(migration.name).get().consistent())
    except NotFound:
        return Report(migration.name, None)
    report = Report(migration.name, None)
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
