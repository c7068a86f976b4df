"""The end of a migration: the source deleted, once nobody can miss it."""

from __future__ import annotations

from contextlib import suppress
from typing import Final, TypeVar

from holdfast.errors import Conflict, HoldfastError, InvalidRequest
from holdfast.guarantees.migration.changes import Changed, Changes
from holdfast.guarantees.migration.comparing import source_tally
from holdfast.guarantees.migration.declaration import Migration, state_of
from holdfast.guarantees.migration.lease import Lease, taken
from holdfast.guarantees.migration.preparing import dropped
from holdfast.guarantees.migration.reporting import Report, status
from holdfast.guarantees.migration.rows import told
from holdfast.guarantees.migration.settings import Pace
from holdfast.guarantees.migration.state import MIGRATIONS, TARGET_IS_TRUTH, MigrationState, Phase
from holdfast.guarantees.migration.transitions import moved_on, to_phase
from holdfast.model import Entity, declaration_of
from holdfast.runtime import Stores, describe

S = TypeVar("S", bound=Entity)
T = TypeVar("T", bound=Entity)

STRAYS_TOLD_MAX: Final = 5


async def remove(
    migration: Migration[S, T], stores: Stores, *, force: bool = False, pace: Pace | None = None
) -> Report:
    """Deletes the source, once the target is the truth and nobody has written to the source since."""
    state = await stores.run(state_of(migration.name)) if await describe(stores, MIGRATIONS) else None
    if state is None or state.phase not in TARGET_IS_TRUTH:
        raise InvalidRequest(
            f"{declaration_of(migration.source).table.name} is still the table that is read and written "
            f"({migration.name} is {state.phase if state else 'not begun'}): switch first, then remove."
        )
    lease = await taken(stores, migration.name, (pace or Pace()).lease_seconds)
    try:
        if not force:
            await _refuse_strays(migration, lease, state)
        await dropped(migration, stores)
        if state.phase is not Phase.REMOVED:
            await moved_on(lease, state, to_phase(migration.name, Phase.REMOVED, stores))
    finally:
        with suppress(HoldfastError):
            await lease.release()
    return await status(migration, stores)


async def _refuse_strays(migration: Migration[S, T], lease: Lease, state: MigrationState) -> None:
    """A write without a fence that reached the source after the switch would be lost with it."""
    stores = lease.stores
    if await describe(stores, declaration_of(migration.source).table) is None:
        return
    tally = await source_tally(migration, stores, lease.pulse)
    is_made_anew = state.phase is Phase.REMOVED and not tally.rows
    if is_made_anew or (tally.rows, tally.checksum) == (state.rows, state.checksum):
        return
    strays: list[str] = []

    async def collect(changed: Changed) -> None:
        strays.extend(map(told, changed))

    await Changes(migration, lease, state.started_at.timestamp(), keeps_place=False).drain(collect)
    raise Conflict(
        f"{declaration_of(migration.source).table.name} was written to after the switch, by somebody without the fence "
        f"({'; '.join(strays[:STRAYS_TOLD_MAX]) or 'the stream has forgotten which rows'}), and the new table does not have "
        "it: write it there, then remove with --force."
    )
