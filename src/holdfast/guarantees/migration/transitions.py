"""From phase to phase: the changes of a migration's state, made under the lease only."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from holdfast.guarantees.migration.lease import Lease
from holdfast.guarantees.migration.state import MigrationState, Phase
from holdfast.model import Put, Update
from holdfast.runtime import Stores


def to_phase(name: str, phase: Phase, stores: Stores) -> Update[MigrationState]:
    update = MigrationState.of(name).update().set(MigrationState.phase, phase)
    return update.set(MigrationState.changed_at, now_of(stores))


def held(name: str, hold: str, seconds: float, stores: Stores) -> Update[MigrationState]:
    until = now_of(stores) + timedelta(seconds=seconds)
    update = to_phase(name, Phase.SWITCHING, stores).set(MigrationState.hold, hold)
    return update.set(MigrationState.hold_until, until)


async def moved_on(lease: Lease, state: MigrationState, update: Update[MigrationState]) -> None:
    if not await committed(lease, update.when(MigrationState.phase.in_(_before_and(state.phase)))):
        raise lease.lost()


def _before_and(phase: Phase) -> tuple[Phase, ...]:
    """A hold that was lifted leaves the phase before the switch, whichever was seen."""
    return (phase,) if phase is not Phase.SWITCHING else (Phase.VERIFIED, Phase.SWITCHING)


async def committed(lease: Lease, write: Put[MigrationState] | Update[MigrationState]) -> bool:
    """Whether a change of the state was made; under the lease only."""
    return not await lease.transact(write)


def now_of(stores: Stores) -> datetime:
    return datetime.fromtimestamp(stores.clock.now(), UTC)
