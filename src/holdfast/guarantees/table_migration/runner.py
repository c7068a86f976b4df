"""`migrate`: runs a migration step by step; a killed one resumes when it is called again.

One process does the work sequentially: between the read of a row and its write, no change is applied. So
whatever happens to a row after its read arrives later from the stream, and wins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Any, Final, Generic, TypeVar

from holdfast.core.errors import Conflict, DeclarationError, HoldfastError, NotFound, RetryLater
from holdfast.guarantees.table_migration.change_stream import ChangedRows, ChangeStream
from holdfast.guarantees.table_migration.comparison import Comparison, MovedRow, RowDifference, compare
from holdfast.guarantees.table_migration.copier import Copier
from holdfast.guarantees.table_migration.declaration import Migration, get_migration_state, lift_hold
from holdfast.guarantees.table_migration.lease import MigrationLease, take_lease
from holdfast.guarantees.table_migration.plan import plan_migration
from holdfast.guarantees.table_migration.preparation import enable_stream, prepare_tables
from holdfast.guarantees.table_migration.report import MigrationReport, get_status
from holdfast.guarantees.table_migration.rows import RowKey, read_page
from holdfast.guarantees.table_migration.settings import Pace, Progress, ignore_progress
from holdfast.guarantees.table_migration.state import (
    MIGRATIONS,
    TARGET_PHASES,
    MigrationState,
    Phase,
    SegmentPosition,
)
from holdfast.guarantees.table_migration.transitions import (
    advance,
    build_hold_update,
    build_phase_update,
    commit,
    get_now,
)
from holdfast.model.entities import Entity, get_declaration
from holdfast.model.ulids import UlidGenerator
from holdfast.runtime import Stores, create_tables, describe_table

S = TypeVar("S", bound=Entity)
T = TypeVar("T", bound=Entity)

MAX_COMPARISONS: Final = 3
MAX_SWITCHES: Final = 4
MAX_SHOWN: Final = 5


class MigrationStep(StrEnum):
    """The steps that `migrate` can stop after."""

    PREPARE = "prepare"
    BACKFILL = "backfill"
    VERIFY = "verify"
    SWITCH = "switch"


_END_PHASES: Final = {
    MigrationStep.PREPARE: Phase.PREPARED,
    MigrationStep.BACKFILL: Phase.BACKFILLED,
    MigrationStep.VERIFY: Phase.VERIFIED,
    MigrationStep.SWITCH: Phase.SWITCHED,
}
_ORDER: Final = tuple(Phase)


async def migrate(
    migration: Migration[S, T],
    stores: Stores,
    *,
    until: MigrationStep = MigrationStep.SWITCH,
    pace: Pace | None = None,
    progress: Progress = ignore_progress,
    wait: bool = True,
) -> MigrationReport:
    """Start or resume the migration, up to the end of the step `until`, and return its status.

    With `wait`, wait for the lease of another process, which may be dead. Raises `DeclarationError` if rows
    cannot be moved, `RetryLater` if another process runs it or the switch took too long, `Conflict` if the
    tables differ.
    """
    await create_tables(stores, [MIGRATIONS])
    pace = pace or Pace()
    lease = await take_lease(stores, migration.name, pace.lease_s, wait=wait)
    try:
        await MigrationRun(migration, lease, pace, progress).run_until(until)
    finally:
        with suppress(HoldfastError):
            await lease.release()
    return await get_status(migration, stores)


class MigrationRun(Generic[S, T]):
    """One process at work on a migration."""

    def __init__(
        self, migration: Migration[S, T], lease: MigrationLease, pace: Pace, progress: Progress
    ) -> None:
        self._migration, self._lease, self._stores = migration, lease, lease.stores
        self._pace, self._progress = pace, progress
        self._copier = Copier(migration, lease, pace.parallel_writes)
        self._known_rows: dict[RowKey, MovedRow] = {}

    async def run_until(self, until: MigrationStep) -> None:
        """Run the missing steps up to `until`; do nothing if the target is authoritative already."""
        state = await self._load_or_start()
        if state.phase is Phase.SWITCHING:
            # Left by a process that died: writers must not wait for this run.
            with suppress(Conflict):
                await self._stores.run(lift_hold(state))
            state = await self._load_state()
        if state.phase in TARGET_PHASES:
            return
        await enable_stream(self._migration, self._stores)
        self._changes = ChangeStream(self._migration, self._lease, state.started_at.timestamp())
        await self._drain()
        for step, action in (
            (MigrationStep.BACKFILL, self._backfill),
            (MigrationStep.VERIFY, self._verify),
            (MigrationStep.SWITCH, self._switch),
        ):
            ends_in = _ORDER.index(_END_PHASES[step])
            if _ORDER.index(_END_PHASES[until]) >= ends_in > _ORDER.index(state.phase):
                await action(state)
                state = await self._load_state()

    # --- prepare --------------------------------------------------------------------------------------------

    async def _load_or_start(self) -> MigrationState:
        """Return the state.

        If there is none, plan, create the tables and the state; raise if the plan is impossible.
        """
        state = await self._stores.run(get_migration_state(self._migration.name))
        if state is not None:
            return state
        found = await plan_migration(
            self._migration, self._stores, progress=self._progress, pulse=self._lease.pulse
        )
        if not found.is_possible:
            raise DeclarationError(
                f"The migration {self._migration.name} cannot start, and nothing was written: "
                f"{found.format_obstacles()}."
            )
        await prepare_tables(self._migration, self._stores)
        now = get_now(self._stores)
        begun = MigrationState(
            migration=self._migration.name, phase=Phase.PREPARED, started_at=now, changed_at=now
        )
        await commit(self._lease, MigrationState.create(begun))
        return begun

    # --- backfill -------------------------------------------------------------------------------------------

    async def _backfill(self, state: MigrationState) -> None:
        """Copy every segment of the source page by page, applying the stream's changes after each round."""
        description = await describe_table(self._stores, get_declaration(self._migration.source).table)
        rows = description.item_count if description is not None else None
        if not self._lease.record.segments:
            await self._lease.renew(segments=[SegmentPosition()] * self._pace.segments)
        while not all(segment.is_done for segment in self._lease.record.segments):
            await self._fill_round()
            await self._drain()
            work = self._lease.record
            self._progress("backfill", work.copied + work.passed_over, rows)
        await advance(self._lease, state, build_phase_update(state.migration, Phase.BACKFILLED, self._stores))

    async def _fill_round(self) -> None:
        """Copy a page of each segment: read and write it before anything else."""
        work = self._lease.record
        pages = await asyncio.gather(
            *(self._read_segment(at, len(work.segments), place) for at, place in enumerate(work.segments))
        )
        items = [item for page, _ in pages for item in page]
        copied = await self._copier.fill(items)
        await self._lease.renew(
            segments=[place for _, place in pages],
            copied=work.copied + copied,
            passed_over=work.passed_over + len(items) - copied,
        )

    async def _read_segment(
        self, segment: int, segments: int, place: SegmentPosition
    ) -> tuple[list[Any], SegmentPosition]:
        """Return the next page of a segment and the position after it.

        `segment` is its number of `segments`.
        """
        if place.is_done:
            return [], place
        page = await read_page(
            self._stores,
            self._migration.source,
            start=place.after,
            limit=self._pace.batch_size,
            segment=segment,
            segments=segments,
        )
        return page.items or [], SegmentPosition(after=page.last_key, is_done=page.last_key is None)

    # --- verify ---------------------------------------------------------------------------------------------

    async def _verify(self, state: MigrationState) -> None:
        """Compare both tables while writers continue, and copy differing rows again, up to three times.

        Rows that still differ are often just changed; the switch compares again.
        """
        await self._drain()
        for _ in range(MAX_COMPARISONS):
            if not await self._repair(await self._compare()):
                break
            await self._drain()
        await advance(self._lease, state, build_phase_update(state.migration, Phase.VERIFIED, self._stores))

    async def _compare(self) -> Comparison:
        """Compare both tables, renewing the lease and reusing the digests of known rows."""
        return await compare(
            self._migration,
            self._stores,
            progress=self._progress,
            pulse=self._lease.pulse,
            memory=self._known_rows,
        )

    async def _repair(self, comparison: Comparison) -> int:
        """Copy differing rows again, and delete extra rows; return the number of differences."""
        changed: ChangedRows = {
            each.source: frozenset({each.target})
            for each in comparison.differences
            if each.source is not None
        }
        await self._copier.copy_changed(changed)
        await self._copier.delete_rows(each.target for each in comparison.differences if each.source is None)
        await self._lease.renew(repaired=self._lease.record.repaired + len(comparison.differences))
        return len(comparison.differences)

    async def _drain(self) -> None:
        """Apply the changes in the stream so far."""
        await self._changes.drain(self._copier.copy_changed)

    # --- switch ---------------------------------------------------------------------------------------------

    async def _switch(self, state: MigrationState) -> None:
        """Try to switch up to four times, each with twice the hold; then raise `RetryLater`."""
        seconds = self._pace.hold_s
        if not self._known_rows:
            # Verified by an earlier run: digest the rows before the hold, not during it.
            await self._compare()
        for _ in range(MAX_SWITCHES):
            if await self._try_switch(state, seconds):
                return
            seconds *= 2
            await self._drain()
        raise RetryLater(
            f"The switch of {state.migration} was abandoned: the comparison took longer than the hold of "
            f"writers ({seconds / 2:g} s in the last attempt). Nothing is lost. Retry when fewer rows change."
        )

    async def _try_switch(self, state: MigrationState, seconds: float) -> bool:
        """Block writers of the source, copy and compare their last writes, and make the target authoritative.

        Return False if that took longer than `seconds` and a writer has lifted the hold.
        """
        self._progress("switch", 0, None)
        hold = UlidGenerator(self._stores.clock).new()
        await advance(self._lease, state, build_hold_update(state.migration, hold, seconds, self._stores))
        try:
            comparison = await self._compare_for_switch()
            final = (
                build_phase_update(state.migration, Phase.SWITCHED, self._stores)
                .set(MigrationState.rows, comparison.target.rows)
                .set(MigrationState.checksum, comparison.target.checksum)
                .remove(MigrationState.hold)
                .remove(MigrationState.hold_until)
                .when(MigrationState.phase == Phase.SWITCHING, MigrationState.hold == hold)
            )
            return await commit(self._lease, final)
        except BaseException:
            with suppress(HoldfastError):
                await self._stores.run(lift_hold(state.model_copy(update={"hold": hold})))
            raise

    async def _compare_for_switch(self) -> Comparison:
        """Compare both tables while writers are blocked, and repair once.

        Raise `DeclarationError` for rows with the same new key, `Conflict` if the tables still differ.
        """
        await self._drain()
        comparison = await self._compare()
        if collisions := [each for each in comparison.differences if each.kind == "collision"]:
            raise DeclarationError(
                f"{len(collisions)} new keys belong to several rows since the plan "
                f"({_format_first_few(collisions)}). Fix "
                "the rows, then run the migration again. Nothing was switched."
            )
        if not comparison.is_equal:
            # The stream delivered a change late. No writer is active now, so one repair must be enough.
            await self._repair(comparison)
            comparison = await self._compare()
        if not comparison.is_equal:
            raise Conflict(
                f"Both tables still differ in {len(comparison.differences)} rows while writers are blocked "
                f"({_format_first_few(comparison.differences)}; {comparison.source.rows} rows against "
                f"{comparison.target.rows}): look for a writer of the target, or one of the source without "
                "the fence. Nothing was switched."
            )
        return comparison

    async def _load_state(self) -> MigrationState:
        """Return the state; raise `NotFound` if there is none."""
        state = await self._stores.run(get_migration_state(self._migration.name))
        if state is None:
            raise NotFound(f"Found no state of the migration {self._migration.name}. Start it again.")
        return state


def _format_first_few(differences: Sequence[RowDifference]) -> str:
    return "; ".join(map(str, differences[:MAX_SHOWN]))
