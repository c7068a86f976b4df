"""A migration gone through, step by step. Each may be killed and is gone on with by calling `migrate` again.

One process does the work, one thing after the other: between reading a row and writing it, no change is followed. So
whatever happens to a row after it was read comes later, out of the stream, and wins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Any, Final, Generic, TypeVar

from holdfast.errors import Conflict, DeclarationError, HoldfastError, NotFound, RetryLater
from holdfast.guarantees.migration.changes import Changed, Changes
from holdfast.guarantees.migration.comparing import Comparison, Difference, Moved, compare
from holdfast.guarantees.migration.copying import Copier
from holdfast.guarantees.migration.declaration import Migration, hold_lifted, state_of
from holdfast.guarantees.migration.lease import Lease, taken
from holdfast.guarantees.migration.plan import plan
from holdfast.guarantees.migration.preparing import prepared, with_stream
from holdfast.guarantees.migration.reporting import Report, status
from holdfast.guarantees.migration.rows import Address, read_page
from holdfast.guarantees.migration.settings import Pace, Progress, silent
from holdfast.guarantees.migration.state import (
    MIGRATIONS,
    TARGET_IS_TRUTH,
    MigrationState,
    Phase,
    SegmentPlace,
)
from holdfast.guarantees.migration.transitions import committed, held, moved_on, now_of, to_phase
from holdfast.model import Entity, Ulids, declaration_of
from holdfast.runtime import Stores, create_tables, describe

S = TypeVar("S", bound=Entity)
T = TypeVar("T", bound=Entity)

COMPARISONS_MAX: Final = 3
SWITCHES_MAX: Final = 4
TOLD_MAX: Final = 5


class Step(StrEnum):
    """What `migrate` can be asked to stop after."""

    PREPARE = "prepare"
    BACKFILL = "backfill"
    VERIFY = "verify"
    SWITCH = "switch"


_ENDS_IN: Final = {
    Step.PREPARE: Phase.PREPARED,
    Step.BACKFILL: Phase.BACKFILLED,
    Step.VERIFY: Phase.VERIFIED,
    Step.SWITCH: Phase.SWITCHED,
}
_ORDER: Final = tuple(Phase)


async def migrate(
    migration: Migration[S, T],
    stores: Stores,
    *,
    until: Step = Step.SWITCH,
    pace: Pace | None = None,
    progress: Progress = silent,
    wait: bool = True,
) -> Report:
    """Goes on from wherever the migration is, up to the end of a step. `wait` for a process that may be dead."""
    await create_tables(stores, [MIGRATIONS])
    pace = pace or Pace()
    lease = await taken(stores, migration.name, pace.lease_seconds, wait=wait)
    try:
        await Run(migration, lease, pace, progress).through(until)
    finally:
        with suppress(HoldfastError):
            await lease.release()
    return await status(migration, stores)


class Run(Generic[S, T]):
    """One process at work on a migration."""

    def __init__(self, migration: Migration[S, T], lease: Lease, pace: Pace, progress: Progress) -> None:
        self._migration, self._lease, self._stores = migration, lease, lease.stores
        self._pace, self._progress = pace, progress
        self._copier = Copier(migration, lease, pace.parallel_writes)
        self._memory: dict[Address, Moved] = {}

    async def through(self, until: Step) -> None:
        state = await self._begun()
        if state.phase is Phase.SWITCHING:
            # Left by a process that died: its writers must not wait for us.
            with suppress(Conflict):
                await self._stores.run(hold_lifted(state))
            state = await self._state()
        if state.phase in TARGET_IS_TRUTH:
            return
        await with_stream(self._migration, self._stores)
        self._changes = Changes(self._migration, self._lease, state.started_at.timestamp())
        await self._drain()
        for step, action in (
            (Step.BACKFILL, self._backfill),
            (Step.VERIFY, self._verify),
            (Step.SWITCH, self._switch),
        ):
            ends_in = _ORDER.index(_ENDS_IN[step])
            if _ORDER.index(_ENDS_IN[until]) >= ends_in > _ORDER.index(state.phase):
                await action(state)
                state = await self._state()

    # --- prepare --------------------------------------------------------------------------------------------

    async def _begun(self) -> MigrationState:
        """The state; where there is none yet, after the plan found nothing in the way and all is prepared."""
        state = await self._stores.run(state_of(self._migration.name))
        if state is not None:
            return state
        found = await plan(self._migration, self._stores, progress=self._progress, pulse=self._lease.pulse)
        if not found.is_possible:
            raise DeclarationError(
                f"The migration {self._migration.name} cannot begin, and nothing was written: {found.obstacles()}."
            )
        await prepared(self._migration, self._stores)
        now = now_of(self._stores)
        begun = MigrationState(
            migration=self._migration.name, phase=Phase.PREPARED, started_at=now, changed_at=now
        )
        await committed(self._lease, MigrationState.create(begun))
        return begun

    # --- backfill -------------------------------------------------------------------------------------------

    async def _backfill(self, state: MigrationState) -> None:
        description = await describe(self._stores, declaration_of(self._migration.source).table)
        rows = description.item_count if description is not None else None
        if not self._lease.work.segments:
            await self._lease.save(segments=[SegmentPlace()] * self._pace.segments)
        while not all(segment.is_done for segment in self._lease.work.segments):
            await self._fill_round()
            await self._drain()
            work = self._lease.work
            self._progress("backfill", work.copied + work.passed_over, rows)
        await moved_on(self._lease, state, to_phase(state.migration, Phase.BACKFILLED, self._stores))

    async def _fill_round(self) -> None:
        """A page of each part of the table, read and written before anything else is looked at."""
        work = self._lease.work
        pages = await asyncio.gather(
            *(self._page(at, len(work.segments), place) for at, place in enumerate(work.segments))
        )
        items = [item for page, _ in pages for item in page]
        copied = await self._copier.fill(items)
        await self._lease.save(
            segments=[place for _, place in pages],
            copied=work.copied + copied,
            passed_over=work.passed_over + len(items) - copied,
        )

    async def _page(self, segment: int, segments: int, place: SegmentPlace) -> tuple[list[Any], SegmentPlace]:
        if place.is_done:
            return [], place
        page = await read_page(
            self._stores,
            self._migration.source,
            start=place.after,
            limit=self._pace.page_rows,
            segment=segment,
            segments=segments,
        )
        return page.items or [], SegmentPlace(after=page.last_key, is_done=page.last_key is None)

    # --- verify ---------------------------------------------------------------------------------------------

    async def _verify(self, state: MigrationState) -> None:
        """Every row compared while writers go on; what differs, often because it has just changed, is copied again."""
        await self._drain()
        for _ in range(COMPARISONS_MAX):
            if not await self._repaired(await self._compared()):
                break
            await self._drain()
        await moved_on(self._lease, state, to_phase(state.migration, Phase.VERIFIED, self._stores))

    async def _compared(self) -> Comparison:
        return await compare(
            self._migration,
            self._stores,
            progress=self._progress,
            pulse=self._lease.pulse,
            memory=self._memory,
        )

    async def _repaired(self, comparison: Comparison) -> int:
        """What differs copied again, and what is too many deleted. Nothing is followed between the two."""
        changed: Changed = {
            each.source: frozenset({each.target})
            for each in comparison.differences
            if each.source is not None
        }
        await self._copier.follow(changed)
        await self._copier.delete(each.target for each in comparison.differences if each.source is None)
        await self._lease.save(repaired=self._lease.work.repaired + len(comparison.differences))
        return len(comparison.differences)

    async def _drain(self) -> None:
        await self._changes.drain(self._copier.follow)

    # --- switch ---------------------------------------------------------------------------------------------

    async def _switch(self, state: MigrationState) -> None:
        seconds = self._pace.hold_seconds
        if not self._memory:
            await (
                self._compared()
            )  # verified by an earlier run: what is known now need not be found out in the hold
        for _ in range(SWITCHES_MAX):
            if await self._switched(state, seconds):
                return
            seconds *= 2
            await self._drain()
        raise RetryLater(
            f"Comparing both tables took longer than writers are made to wait ({seconds / 2:g} s at last), and the "
            f"switch of {state.migration} was given up: nothing is lost; try again when fewer rows change."
        )

    async def _switched(self, state: MigrationState, seconds: float) -> bool:
        """Writers of the source wait, what they wrote is copied and compared, and the target is the truth.

        False if that took too long and a writer has lifted the hold.
        """
        self._progress("switch", 0, None)
        hold = Ulids(self._stores.clock).new()
        await moved_on(self._lease, state, held(state.migration, hold, seconds, self._stores))
        try:
            comparison = await self._still_and_equal()
            final = (
                to_phase(state.migration, Phase.SWITCHED, self._stores)
                .set(MigrationState.rows, comparison.target.rows)
                .set(MigrationState.checksum, comparison.target.checksum)
                .remove(MigrationState.hold)
                .remove(MigrationState.hold_until)
                .when(MigrationState.phase == Phase.SWITCHING, MigrationState.hold == hold)
            )
            return await committed(self._lease, final)
        except BaseException:
            with suppress(HoldfastError):
                await self._stores.run(hold_lifted(state.model_copy(update={"hold": hold})))
            raise

    async def _still_and_equal(self) -> Comparison:
        await self._drain()
        comparison = await self._compared()
        if collisions := [each for each in comparison.differences if each.kind == "collision"]:
            raise DeclarationError(
                f"{len(collisions)} new keys have come to belong to several rows since the plan "
                f"({_few(collisions)}): mend the rows, then run the migration again. Nothing was switched."
            )
        if not comparison.is_equal:
            # A change that the stream is late with. Nothing changes now, so that once more must do.
            await self._repaired(comparison)
            comparison = await self._compared()
        if not comparison.is_equal:
            raise Conflict(
                f"Both tables still differ in {len(comparison.differences)} rows while nobody writes "
                f"({_few(comparison.differences)}; {comparison.source.rows} rows against {comparison.target.rows}): "
                "look for a writer of the target, or one of the source that has no fence. Nothing was switched."
            )
        return comparison

    async def _state(self) -> MigrationState:
        state = await self._stores.run(state_of(self._migration.name))
        if state is None:
            raise NotFound(f"The state of the migration {self._migration.name} is gone: begin it again.")
        return state


def _few(differences: Sequence[Difference]) -> str:
    return "; ".join(map(str, differences[:TOLD_MAX]))
