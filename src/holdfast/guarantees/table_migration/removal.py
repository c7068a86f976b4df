"""`remove_source`: deletes the source table at the end of a migration, unless it was written to since."""

from __future__ import annotations

from contextlib import suppress
from typing import Final, TypeVar

from holdfast.core.errors import Conflict, HoldfastError, InvalidRequest
from holdfast.guarantees.table_migration.change_stream import ChangedRows, ChangeStream
from holdfast.guarantees.table_migration.comparison import tally_source
from holdfast.guarantees.table_migration.declaration import Migration, get_migration_state
from holdfast.guarantees.table_migration.lease import MigrationLease, take_lease
from holdfast.guarantees.table_migration.preparation import drop_source
from holdfast.guarantees.table_migration.report import MigrationReport, get_status
from holdfast.guarantees.table_migration.rows import format_row_key
from holdfast.guarantees.table_migration.settings import Pace
from holdfast.guarantees.table_migration.state import MIGRATIONS, TARGET_PHASES, MigrationState, Phase
from holdfast.guarantees.table_migration.transitions import advance, build_phase_update
from holdfast.model.entities import Entity, get_declaration
from holdfast.runtime import Stores, describe_table

S = TypeVar("S", bound=Entity)
T = TypeVar("T", bound=Entity)

MAX_STRAYS_SHOWN: Final = 5


async def remove_source(
    migration: Migration[S, T], stores: Stores, *, force: bool = False, pace: Pace | None = None
) -> MigrationReport:
    """Delete the source, once the target is authoritative, and return the migration's status.

    Raises `InvalidRequest` before the switch, and `Conflict` if the source was written to since, unless
    `force`.
    """
    state = (
        await stores.run(get_migration_state(migration.name))
        if await describe_table(stores, MIGRATIONS)
        else None
    )
    if state is None or state.phase not in TARGET_PHASES:
        raise InvalidRequest(
            f"{get_declaration(migration.source).table.name} is still in use "
            f"({migration.name} is {state.phase if state else 'not started'}). Switch first, then remove."
        )
    lease = await take_lease(stores, migration.name, (pace or Pace()).lease_s)
    try:
        if not force:
            await _check_stray_writes(migration, lease, state)
        await drop_source(migration, stores)
        if state.phase is not Phase.REMOVED:
            await advance(lease, state, build_phase_update(migration.name, Phase.REMOVED, stores))
    finally:
        with suppress(HoldfastError):
            await lease.release()
    return await get_status(migration, stores)


async def _check_stray_writes(
    migration: Migration[S, T], lease: MigrationLease, state: MigrationState
) -> None:
    """Raise `Conflict` if a write without a fence reached the source after the switch: it would be lost."""
    stores = lease.stores
    if await describe_table(stores, get_declaration(migration.source).table) is None:
        return
    tally = await tally_source(migration, stores, lease.pulse)
    is_recreated = state.phase is Phase.REMOVED and not tally.rows
    if is_recreated or (tally.rows, tally.checksum) == (state.rows, state.checksum):
        return
    strays: list[str] = []

    async def collect(changed: ChangedRows) -> None:
        strays.extend(map(format_row_key, changed))

    await ChangeStream(migration, lease, state.started_at.timestamp(), saves_position=False).drain(collect)
    raise Conflict(
        f"{get_declaration(migration.source).table.name} was written to after the switch, without the fence "
        f"({'; '.join(strays[:MAX_STRAYS_SHOWN]) or 'the stream no longer has the rows'}), and the new table "
        "does not have these writes. Write them there, then remove with --force."
    )
