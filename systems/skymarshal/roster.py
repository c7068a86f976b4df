"""The crew roster in two tables: the document's, by roster id, and the new one, by crew member and time.

`CREW_ROSTER_V2` moves the one to the other while both readers and writers go on. Until the switch the old table is the
truth, then the new one. Whoever changes the roster does it here, with `assign`, `change` and `release`: they write to
the table that is the truth, and a write to the old one stands in one transaction with the fence that keeps it from
coming too late.
"""

from __future__ import annotations

from datetime import UTC, datetime

from holdfast import Delete, Get, Put, Rate, Stores, Transact, Update, pattern, transact
from holdfast.guarantees import Migration, MigrationState, Phase, fence, hold_lifted, source_tally, state_of
from skymarshal import examples
from skymarshal.model import CrewAssignment, CrewDuty

NAME = "crew-roster-v2"
# The examples of writes to the old table stand under a migration that was never begun: after the real one has switched,
# as in the sample, its fence would refuse them.
NEVER_BEGUN = "example"
ROSTER_CHANGE = Rate("roster change")


def duty_of(assignment: CrewAssignment) -> CrewDuty:
    """The duty of an assignment. Attributes that this code does not know go with it."""
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


# --- for readers -------------------------------------------------------------------------------------------------


@pattern("RO7", "Which roster is the one to read and write", rate=Rate("roster view"))
def roster_state() -> Get[MigrationState]:
    return state_of(NAME)


async def reads_from_new_table(stores: Stores) -> bool:
    """Whether crews are read from the new table now."""
    return await CREW_ROSTER_V2.reads_target(stores)


def begun_in_new_table(at: datetime) -> Put[MigrationState]:
    """The state of a roster that is in the new table from its beginning: as after the switch."""
    state = MigrationState(migration=NAME, phase=Phase.SWITCHED, started_at=at, changed_at=at)
    return MigrationState.create(state)


async def filled_new_table(stores: Stores) -> Update[MigrationState]:
    """That all rows of such a roster are there, in both tables: the old one may then be removed."""
    held = await source_tally(CREW_ROSTER_V2, stores)
    update = MigrationState.of(NAME).update().set(MigrationState.rows, held.rows)
    return update.set(MigrationState.checksum, held.checksum)


# --- for writers -------------------------------------------------------------------------------------------------


async def assign(stores: Stores, assignment: CrewAssignment) -> None:
    """Puts a crew member on a flight. A roster id that is taken is refused with a Conflict."""
    await CREW_ROSTER_V2.write(stores, assign_crew(assignment), assign_crew_v2(assignment))


async def change(stores: Stores, seen: CrewAssignment, changed: CrewAssignment) -> None:
    """Changes an assignment, another crew member or another time included; a Conflict if somebody did before."""
    changed = changed.model_copy(update={"version": seen.version + 1, "roster_id": seen.roster_id})
    await CREW_ROSTER_V2.write(stores, change_crew(seen, changed), change_crew_v2(seen, changed))


async def release(stores: Stores, seen: CrewAssignment) -> None:
    """Takes a crew member off a flight; a Conflict if the assignment was changed since it was seen."""
    await CREW_ROSTER_V2.write(stores, release_crew(seen), release_crew_v2(seen))


@pattern(
    "RO1",
    "Put a crew member on a flight",
    rate=ROSTER_CHANGE,
    example=lambda: (examples.assignment(), NEVER_BEGUN),
)
def assign_crew(assignment: CrewAssignment, migration: str = NAME) -> Transact:
    return transact(fence(migration), CrewAssignment.create(assignment))


@pattern(
    "RO2",
    "Take a crew member off a flight, if nobody changed the assignment since it was read",
    rate=ROSTER_CHANGE,
    example=lambda: (_known(), NEVER_BEGUN),
)
def release_crew(seen: CrewAssignment, migration: str = NAME) -> Transact:
    released = CrewAssignment.of(seen.roster_id).delete().when(CrewAssignment.version == seen.version)
    return transact(fence(migration), released)


@pattern(
    "RO3",
    "Change an assignment, if nobody did since it was read",
    rate=ROSTER_CHANGE,
    example=lambda: (_known(), _known(), NEVER_BEGUN),
)
def change_crew(seen: CrewAssignment, changed: CrewAssignment, migration: str = NAME) -> Transact:
    at_version = CrewAssignment.version == seen.version
    return transact(fence(migration), CrewAssignment.put(changed).when(at_version))


@pattern(
    "RO4",
    "Put a crew member on a flight, in the new table",
    rate=ROSTER_CHANGE,
    example=lambda: (examples.assignment(),),
)
def assign_crew_v2(assignment: CrewAssignment) -> Put[CrewDuty]:
    return CrewDuty.create(duty_of(assignment))


@pattern(
    "RO5",
    "Take a crew member off a flight, in the new table, if nobody changed it since it was read",
    rate=ROSTER_CHANGE,
    example=lambda: (_known(),),
)
def release_crew_v2(seen: CrewAssignment) -> Delete[CrewDuty]:
    released = CrewDuty.of(seen.crew_id).delete(seen.duty_start, seen.roster_id)
    return released.when(CrewDuty.version == seen.version)


@pattern(
    "RO6",
    "Change an assignment in the new table, if nobody did since it was read",
    rate=ROSTER_CHANGE,
    example=lambda: (_known(), _known()),
)
def change_crew_v2(seen: CrewAssignment, changed: CrewAssignment) -> Transact:
    if (seen.crew_id, seen.duty_start) == (changed.crew_id, changed.duty_start):
        return transact(CrewDuty.put(duty_of(changed)).when(CrewDuty.version == seen.version))
    return transact(release_crew_v2(seen), CrewDuty.create(duty_of(changed)))


@pattern(
    "RO8",
    "Go on writing to the old roster when a switch to the new one was not ended in time",
    rate=ROSTER_CHANGE,
    example=lambda: (
        MigrationState(
            migration=NEVER_BEGUN,
            phase=Phase.SWITCHING,
            started_at=datetime(2026, 1, 30, tzinfo=UTC),
            changed_at=datetime(2026, 1, 30, tzinfo=UTC),
        ),
    ),
)
def lift_roster_hold(state: MigrationState) -> Put[MigrationState]:
    return hold_lifted(state)


def _known() -> CrewAssignment:
    """The first assignment of the sample: what the examples of changes change."""
    key = {"roster_id": "R-0001", "duty_start": datetime(2026, 1, 30, 0, 45, tzinfo=UTC)}
    return examples.assignment().model_copy(update=key)


CREW_ROSTER_V2 = Migration(
    NAME,
    CrewAssignment,
    CrewDuty,
    duty_of,
    version=CrewAssignment.version,
    state=roster_state,
    lift=lift_roster_hold,
    # The document's own key. It would lose a row where one duty has two sectors: they begin at the same time.
    plain_key=(CrewDuty.crew_id, CrewDuty.duty_start),
)
