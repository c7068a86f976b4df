"""Transitions between the phases of a migration, made under the lease only."""

from __future__ import annotations

from datetime import datetime, timedelta

from holdfast.guarantees.table_migration.lease import MigrationLease
from holdfast.guarantees.table_migration.state import MigrationState, Phase
from holdfast.model.entities import Put, Update
from holdfast.runtime import Stores


def build_phase_update(name: str, phase: Phase, stores: Stores) -> Update[MigrationState]:
    """Build the update of the state's phase and of its time of change. `name` is the migration's."""
    update = MigrationState.of(name).update().set(MigrationState.phase, phase)
    return update.set(MigrationState.changed_at, get_now(stores))


def build_hold_update(name: str, hold: str, seconds: float, stores: Stores) -> Update[MigrationState]:
    """Build the update that starts a switch: writers wait up to `seconds`; `hold` is the switch's token."""
    until = get_now(stores) + timedelta(seconds=seconds)
    update = build_phase_update(name, Phase.SWITCHING, stores).set(MigrationState.hold, hold)
    return update.set(MigrationState.hold_until, until)


async def advance(lease: MigrationLease, state: MigrationState, update: Update[MigrationState]) -> None:
    """Commit the update if the phase is still the one in `state`; otherwise raise `LeaseLost`."""
    if not await commit(lease, update.when(MigrationState.phase.in_(_list_expected_phases(state.phase)))):
        raise lease.build_lost_error()


def _list_expected_phases(phase: Phase) -> tuple[Phase, ...]:
    """Return the phases that a transition may start from. A lifted hold goes back to `verified`."""
    return (phase,) if phase is not Phase.SWITCHING else (Phase.VERIFIED, Phase.SWITCHING)


async def commit(lease: MigrationLease, write: Put[MigrationState] | Update[MigrationState]) -> bool:
    """Commit a change of the state under the lease. Return False if its condition failed."""
    return not await lease.transact(write)


def get_now(stores: Stores) -> datetime:
    return stores.now()
