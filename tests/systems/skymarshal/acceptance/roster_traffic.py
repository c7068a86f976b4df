"""Simulated crew control for migration tests: it changes the roster and remembers acknowledged writes.

`Traffic` assigns, changes (also crew member and time, the key of the new table) and releases rows, and reads
each write back. `assert_arrived` compares the new table with what all writers remember: every acknowledged
write is there, no released row came back, and there is nothing else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from random import Random

from holdfast import Stores
from skymarshal.domain.statuses import CrewPosition
from skymarshal.model import queries, roster
from skymarshal.model.entities import CrewAssignment, CrewDuty, CrewId, FlightId, RosterId

FIRST_DUTY = datetime(2026, 1, 1, tzinfo=UTC)
CREWS, FLIGHTS = 7, 5


class Traffic:
    """One simulated writer with roster ids of its own.

    `rows` holds its acknowledged rows, `known` the ones that it starts with; `changes` counts its writes.
    """

    def __init__(
        self, stores: Stores, name: str, random: Random, known: Iterable[CrewAssignment] = ()
    ) -> None:
        self._stores, self._name, self._random = stores, name, random
        self.rows: dict[RosterId, CrewAssignment] = {each.roster_id: each for each in known}
        self.released: list[CrewAssignment] = []
        self.changes = 0

    async def run(self, stop: asyncio.Event) -> None:
        """Write until the event is set."""
        while not stop.is_set():
            await self.step()
            await asyncio.sleep(0)  # an in-memory engine never blocks and would starve other tasks

    async def step(self) -> None:
        """Assign, change or release one row at random and check that the write can be read back."""
        dice = self._random.random()
        if dice < 0.4 or not self.rows:
            await self._assign()
        elif dice < 0.8:
            await self._change()
        else:
            await self._release()
        self.changes += 1

    async def _assign(self) -> None:
        """Create a random row and check that it can be read."""
        made = make_assignment(RosterId(f"{self._name}-{self.changes}"), self._random)
        await roster.assign(self._stores, made)
        self.rows[made.roster_id] = made
        assert await self._read(made) == made

    async def _change(self) -> None:
        """Replace a random row, in half of the cases under the same key, and check that it can be read."""
        seen = self._random.choice(list(self.rows.values()))
        changed = make_assignment(seen.roster_id, self._random)
        if self._random.random() < 0.5:
            same = {name: getattr(seen, name) for name in ("crew_id", "duty_start", "duty_end")}
            changed = changed.model_copy(update=same)
        await roster.change(self._stores, seen, changed)
        self.rows[seen.roster_id] = changed.model_copy(update={"version": seen.version + 1})
        assert await self._read(changed) == self.rows[seen.roster_id]

    async def _release(self) -> None:
        """Delete a random row and check that it is gone."""
        seen = self._random.choice(list(self.rows.values()))
        await roster.release(self._stores, seen)
        del self.rows[seen.roster_id]
        self.released.append(seen)
        assert await self._read(seen) is None

    async def _read(self, assignment: CrewAssignment) -> CrewAssignment | None:
        """Read the row from the table that readers currently use."""
        if await roster.is_roster_switched(self._stores):
            get = CrewDuty.of(assignment.crew_id).get(assignment.duty_start, assignment.roster_id)
            duty = await self._stores.run(get.consistent())
            return None if duty is None else to_assignment(duty)
        return await self._stores.run(CrewAssignment.of(assignment.roster_id).get().consistent())


async def keep_reading(stores: Stores, stop: asyncio.Event, unchanged: CrewAssignment) -> int:
    """Read the crew of a flight until the event is set, and check that the unchanged row is always included.

    Return the number of reads.
    """
    reads = 0
    while not stop.is_set():
        crew = await queries.get_crew_rows(stores, unchanged.flight_id)
        assert [each.crew_id for each in crew if each.roster_id == unchanged.roster_id] == [unchanged.crew_id]
        reads += 1
        await asyncio.sleep(0)
    return reads


def make_assignment(roster_id: RosterId, random: Random) -> CrewAssignment:
    """Make an assignment with random crew member, flight, position and start in January 2026."""
    start = FIRST_DUTY + timedelta(hours=random.randrange(24 * 30))
    return CrewAssignment(
        roster_id=roster_id,
        crew_id=CrewId(str(random.randrange(CREWS))),
        flight_id=FlightId(str(random.randrange(FLIGHTS))),
        position_id=random.choice(list(CrewPosition)),
        duty_start=start,
        duty_end=start + timedelta(hours=8),
        source_message=random.choice([None, "CRW\nEY11/30JAN AUH-LHR"]),
    )


def to_assignment(duty: CrewDuty) -> CrewAssignment:
    """Convert a row of the new roster table to one of the old table."""
    return CrewAssignment.model_validate(duty.model_dump())


async def fill_roster(stores: Stores, rows: int, random: Random) -> list[CrewAssignment]:
    """Write rows to the old table before the migration starts, and return them."""
    made = [make_assignment(RosterId(f"old-{number}"), random) for number in range(rows)]
    for each in made:
        await stores.run(CrewAssignment.put(each))
    return made


async def assert_arrived(stores: Stores, expected: Iterable[CrewAssignment]) -> None:
    """Assert that the new roster table holds exactly the expected rows, each once."""
    wanted = {each.roster_id: each for each in expected}
    duties = (await stores.all(CrewDuty.scan(reason="every row is compared").consistent())).items
    found = {duty.roster_id: to_assignment(duty) for duty in duties}

    assert len(duties) == len(found), "a row exists under two keys"
    assert wanted.keys() - found.keys() == set(), "acknowledged writes were lost"
    assert found.keys() - wanted.keys() == set(), "released rows came back"
    assert found == wanted
