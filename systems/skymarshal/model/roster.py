"""Writes to the crew roster, their access patterns, and the migration of the roster from its old table.

The design document's table is keyed by roster id, the new one by crew member and time. `CREW_ROSTER_V2` moves
the rows while readers and writers continue. The old table is authoritative until the switch, the new one
after it. Change the roster only with `assign`, `change` and `release`: they write to the authoritative table,
and a write to the old one shares a transaction with the fence that refuses it once the switch has begun.
"""

from __future__ import annotations

from datetime import UTC, datetime

from holdfast import Delete, Get, Put, Rate, Stores, Update, pattern, transact
from holdfast.guarantees import (
    Migration,
    MigrationState,
    Phase,
    fence,
    get_migration_state,
    lift_hold,
    tally_source,
)
from holdfast.model.entities import Transact
from skymarshal.model import examples
from skymarshal.model.entities import CrewAssignment, CrewDuty

MIGRATION_NAME = "crew-roster-v2"
# The examples of writes to the old table name a migration that never starts: once the real one has
# switched, as in the sample, its fence would refuse them.
EXAMPLE_MIGRATION = "example"
ROSTER_CHANGE = Rate("roster change")


def to_duty(assignment: CrewAssignment) -> CrewDuty:
    """Convert a row of the old roster table to one of the new table.

    Attributes that this release does not know are copied too.
    """
    duty = CrewDuty(
        crew_id=assignment.crew_id,
        duty_start=assignment.duty_start,
        roster_id=assignment.roster_id,
        flight_id=assignment.flight_id,
        position_id=assignment.position_id,
        duty_end=assignment.duty_end,
        roster_status=assignment.roster_status,
        home_base=assignment.home_base,
        version=assignment.version,
        source_message=assignment.source_message,
    )
    duty.keep_unknown(assignment.unknown_attributes)
    return duty


# --- reads ----------------------------------------------------------------------------------------


@pattern(
    "RO7", "The migration state, which says which roster table is authoritative", rate=Rate("roster view")
)
def roster_state() -> Get[MigrationState]:
    """Get the state of the roster's migration."""
    return get_migration_state(MIGRATION_NAME)


async def is_roster_switched(stores: Stores) -> bool:
    """Return whether the new roster table is authoritative, so that crews are read from it."""
    return await CREW_ROSTER_V2.should_read_target(stores)


def build_switched_state(at: datetime) -> Put[MigrationState]:
    """Build the write that marks the roster as switched, for a roster that starts in the new table."""
    state = MigrationState(migration=MIGRATION_NAME, phase=Phase.SWITCHED, started_at=at, changed_at=at)
    return MigrationState.create(state)


async def build_row_count_update(stores: Stores) -> Update[MigrationState]:
    """Read the whole old table and build the update that records its row count and checksum.

    Call it once both tables are filled: with these recorded, the old table may be removed.
    """
    held = await tally_source(CREW_ROSTER_V2, stores)
    update = MigrationState.of(MIGRATION_NAME).update().set(MigrationState.rows, held.rows)
    return update.set(MigrationState.checksum, held.checksum)


# --- writes ---------------------------------------------------------------------------------------


async def assign(stores: Stores, assignment: CrewAssignment) -> None:
    """Put a crew member on a flight. Raise `Conflict` if the row exists.

    The key of a row is the roster id in the old table; crew member, start and roster id in the new one.
    """
    await CREW_ROSTER_V2.write(stores, assign_crew(assignment), assign_crew_v2(assignment))


async def change(stores: Stores, seen: CrewAssignment, changed: CrewAssignment) -> None:
    """Replace the assignment `seen` by `changed`, which may have another crew member and other times.

    The roster id stays and the version rises by one. Raise `Conflict` if the row changed since `seen` was
    read.
    """
    changed = changed.model_copy(update={"version": seen.version + 1, "roster_id": seen.roster_id})
    await CREW_ROSTER_V2.write(stores, change_crew(seen, changed), change_crew_v2(seen, changed))


async def release(stores: Stores, seen: CrewAssignment) -> None:
    """Delete the assignment `seen`: the crew member is off the flight.

    Raise `Conflict` if it changed meanwhile.
    """
    await CREW_ROSTER_V2.write(stores, release_crew(seen), release_crew_v2(seen))


@pattern(
    "RO1",
    "Put a crew member on a flight",
    rate=ROSTER_CHANGE,
    example=lambda: (examples.crew_assignment(), EXAMPLE_MIGRATION),
)
def assign_crew(assignment: CrewAssignment, migration: str = MIGRATION_NAME) -> Transact:
    """Create a row of the old roster table, in a transaction with the fence of the migration of this name."""
    return transact(fence(migration), CrewAssignment.create(assignment))


@pattern(
    "RO2",
    "Take a crew member off a flight, if the assignment has not changed since it was read",
    rate=ROSTER_CHANGE,
    example=lambda: (_get_sample_assignment(), EXAMPLE_MIGRATION),
)
def release_crew(seen: CrewAssignment, migration: str = MIGRATION_NAME) -> Transact:
    """Delete the row `seen` of the old roster table, in a transaction with the migration's fence.

    The condition is that the row's version is the same.
    """
    released = CrewAssignment.of(seen.roster_id).delete().when(CrewAssignment.version == seen.version)
    return transact(fence(migration), released)


@pattern(
    "RO3",
    "Change an assignment, if it has not changed since it was read",
    rate=ROSTER_CHANGE,
    example=lambda: (_get_sample_assignment(), _get_sample_assignment(), EXAMPLE_MIGRATION),
)
def change_crew(seen: CrewAssignment, changed: CrewAssignment, migration: str = MIGRATION_NAME) -> Transact:
    """Replace the row `seen` of the old roster table, in a transaction with the migration's fence.

    The condition is that the row's version is the same.
    """
    at_version = CrewAssignment.version == seen.version
    return transact(fence(migration), CrewAssignment.put(changed).when(at_version))


@pattern(
    "RO4",
    "Put a crew member on a flight, in the new table",
    rate=ROSTER_CHANGE,
    example=lambda: (examples.crew_assignment(),),
)
def assign_crew_v2(assignment: CrewAssignment) -> Put[CrewDuty]:
    """Create the row of the new roster table for this assignment."""
    return CrewDuty.create(to_duty(assignment))


@pattern(
    "RO5",
    "Take a crew member off a flight, in the new table, if the duty has not changed since it was read",
    rate=ROSTER_CHANGE,
    example=lambda: (_get_sample_assignment(),),
)
def release_crew_v2(seen: CrewAssignment) -> Delete[CrewDuty]:
    """Delete the row of the new roster table for the assignment `seen`, if its version is the same."""
    released = CrewDuty.of(seen.crew_id).delete(seen.duty_start, seen.roster_id)
    return released.when(CrewDuty.version == seen.version)


@pattern(
    "RO6",
    "Change an assignment in the new table, if it has not changed since it was read",
    rate=ROSTER_CHANGE,
    example=lambda: (_get_sample_assignment(), _get_sample_assignment()),
)
def change_crew_v2(seen: CrewAssignment, changed: CrewAssignment) -> Transact:
    """Replace the row of `seen` in the new roster table, if its version is the same.

    With another crew member or start, the key changes: the old row is deleted and a new one created.
    """
    if (seen.crew_id, seen.duty_start) == (changed.crew_id, changed.duty_start):
        return transact(CrewDuty.put(to_duty(changed)).when(CrewDuty.version == seen.version))
    return transact(release_crew_v2(seen), CrewDuty.create(to_duty(changed)))


@pattern(
    "RO8",
    "Resume writes to the old roster after a switch to the new one ran out of time",
    rate=ROSTER_CHANGE,
    example=lambda: (
        MigrationState(
            migration=EXAMPLE_MIGRATION,
            phase=Phase.SWITCHING,
            started_at=datetime(2026, 1, 30, tzinfo=UTC),
            changed_at=datetime(2026, 1, 30, tzinfo=UTC),
        ),
    ),
)
def lift_roster_hold(state: MigrationState) -> Put[MigrationState]:
    """Build the write that ends the hold on the old table, so that writes to it resume."""
    return lift_hold(state)


def _get_sample_assignment() -> CrewAssignment:
    """Return the first assignment of the sample, which the examples of changes modify."""
    key = {"roster_id": "R-0001", "duty_start": datetime(2026, 1, 30, 0, 45, tzinfo=UTC)}
    return examples.crew_assignment().model_copy(update=key)


CREW_ROSTER_V2 = Migration(
    MIGRATION_NAME,
    CrewAssignment,
    CrewDuty,
    to_duty,
    version=CrewAssignment.version,
    state=roster_state,
    lift_hold=lift_roster_hold,
    # The design document's key. It would lose a row where one duty has two sectors: both start at the same
    # time.
    plain_key=(CrewDuty.crew_id, CrewDuty.duty_start),
)
