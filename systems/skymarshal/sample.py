"""The sample: an airline's data at the document's sizes, the same bytes on every run, at any scale.

`sampling` plans a block of five days at a time; this module creates the tables and writes block after block by the
import patterns, several batches at once. Nothing of one block is kept when the next begins.

Run again, it undoes nothing that was decided since: flights, rosters and decisions are written only where they are
absent. The crew roster stands in both of its tables, and the new one is the one to read, as after its migration; on a
store that has a roster of its own the sample adds to the table that is the truth there and leaves it so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, TypeVar

from holdfast import BatchGet, BatchPut, Stores, batch, create_tables
from holdfast.errors import ConditionFailed, InvalidRequest
from holdfast.guarantees import MigrationState, Phase
from skymarshal import patterns
from skymarshal.model import TABLES, CrewAssignment, CrewDuty, Flight, crew_roster
from skymarshal.roster import CREW_ROSTER_V2, begun_in_new_table, duty_of, filled_new_table
from skymarshal.sampling.bags import BAGS, bag_counts, bags, paid_for
from skymarshal.sampling.crews import crew_assignments
from skymarshal.sampling.freight import cargo_assignments
from skymarshal.sampling.hits import disruptions
from skymarshal.sampling.journeys import BOOKINGS, bookings, journeys
from skymarshal.sampling.schedule import NOW, Block, blocks
from skymarshal.sampling.workshop import maintenance_shifts, work_orders

E = TypeVar("E")

# As many as one request takes, and as many requests as keep an engine busy without filling memory.
BATCH_ROWS: Final = 25
WRITERS: Final = 16
# Bookings, bags, passengers and the rest, for the bar alone.
ROWS_PER_BLOCK: Final = BOOKINGS + BAGS + 11_000

# Called with what is being done, how many rows are written, and about how many there will be.
Progress = Callable[[str, int, int], None]


async def sample(stores: Stores, *, scale: float = 1, progress: Progress | None = None) -> int:
    """Creates the tables that are absent and fills them all; gives the number of rows. It may be run again."""
    if scale <= 0:
        raise InvalidRequest(f"The scale of the sample is {scale}: give a number above 0, such as 1 or 0.1.")
    tables = TABLES if stores.system is None else stores.system.tables
    state = await CREW_ROSTER_V2.current(stores)
    is_removed = state is not None and state.phase is Phase.REMOVED
    await create_tables(stores, [each for each in tables if not (is_removed and each is crew_roster)])
    rosters = await _rosters(stores, state)
    writing = _Writing(stores, int(ROWS_PER_BLOCK * scale), progress)
    for block in blocks(scale):
        await _write_block(writing, block, rosters)
    if rosters.are_begun:
        await stores.run(await filled_new_table(stores))
    return writing.rows


class _Rosters(NamedTuple):
    """Which tables the sample's crews are written to. `are_begun` by the sample itself, and not yet full.

    A roster that is full gets the crews of blocks that are new with a larger scale, and none that was released.
    """

    in_old_table: bool
    in_new_table: bool
    are_begun: bool = False
    are_full: bool = False


async def _rosters(stores: Stores, state: MigrationState | None) -> _Rosters:
    if state is None:
        there = await stores.run(CrewAssignment.scan(reason="whether there is a roster").page(1))
        if there.items:
            return _Rosters(True, False)
        await stores.run(begun_in_new_table(NOW))
        return _Rosters(True, True, are_begun=True)
    if state.phase not in (Phase.SWITCHED, Phase.REMOVED):
        return _Rosters(True, False)
    # Without a count it is the sample's own state, left by a run that was cut short.
    return (
        _Rosters(True, True, are_begun=True) if state.rows is None else _Rosters(False, True, are_full=True)
    )


async def _write_block(writing: _Writing, block: Block, rosters: _Rosters) -> None:
    planned = journeys(block)
    counts = bag_counts(block, planned)
    flights = [departure.flight for departure in block.departures.values()]
    is_new = await writing.stores.run(patterns.flight(flights[0].flight_id)) is None
    await writing.put("flights", patterns.import_flights, flights, absent=_absent_flights)
    people = (journey.passenger for journey in planned)
    await writing.put("passengers", patterns.import_passengers, people)
    await writing.put("bookings", patterns.import_bookings, bookings(planned, paid_for(block, counts)))
    await writing.put("bags", patterns.import_bags, bags(block, planned, counts))
    crews = list(crew_assignments(block))
    if rosters.in_old_table:
        await writing.put("crew", patterns.import_crew_assignments, crews, absent=_absent_assignments)
    if rosters.in_new_table and (is_new or not rosters.are_full):
        await writing.put("crew", patterns.import_crew_duties, map(duty_of, crews), absent=_absent_duties)
    await writing.put("cargo", patterns.import_cargo, cargo_assignments(block))
    orders = (work.order for work in work_orders(block))
    await writing.put("maintenance", patterns.import_work_orders, orders)
    shifts = maintenance_shifts(block, work_orders(block))
    await writing.put("maintenance", patterns.import_maintenance_shifts, shifts)
    for disruption, hit in disruptions(block, planned):
        try:
            await writing.stores.run(patterns.record_disruption(disruption))
        except ConditionFailed:
            pass  # from an earlier run
        await writing.put("disruptions", patterns.note_disrupted_passengers, hit)


def _absent_flights(rows: Sequence[Flight]) -> BatchGet[Flight]:
    return patterns.flights_by_id([row.flight_id for row in rows])


def _absent_assignments(rows: Sequence[CrewAssignment]) -> BatchGet[CrewAssignment]:
    return batch(CrewAssignment.of(row.roster_id).get() for row in rows)


def _absent_duties(rows: Sequence[CrewDuty]) -> BatchGet[CrewDuty]:
    return batch(CrewDuty.of(row.crew_id).get(row.duty_start, row.roster_id) for row in rows)


class _Writing:
    """Rows on their way into the stores, and how many have arrived."""

    def __init__(self, stores: Stores, expected: int, progress: Progress | None) -> None:
        self.stores, self.rows = stores, 0
        self._expected, self._progress = expected, progress

    async def put(
        self,
        what: str,
        pattern: Callable[[Sequence[E]], BatchPut[Any]],
        rows: Iterable[E],
        absent: Callable[[Sequence[E]], BatchGet[Any]] | None = None,
    ) -> None:
        """Several writers take the next batch each, so that only their batches are in memory.

        With `absent`, which asks for the rows of a batch, those that are there are left as they are.
        """
        batches = _batches(rows)

        async def writer() -> None:
            for rows in batches:
                missing = rows if absent is None else await self._missing(rows, absent(rows))
                if missing:
                    await self.stores.run(pattern(missing))
                self.rows += len(rows)
                if self._progress is not None:
                    self._progress(what, self.rows, max(self.rows, self._expected))

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(WRITERS):
                    group.create_task(writer())
        except ExceptionGroup as several:
            raise several.exceptions[0] from several

    async def _missing(self, rows: Sequence[E], asked: BatchGet[Any]) -> list[E]:
        found = await self.stores.run(asked)
        return [row for row, there in zip(rows, found, strict=True) if there is None]


def _batches(rows: Iterable[E]) -> Iterator[list[E]]:
    source = iter(rows)
    while batch := list(islice(source, BATCH_ROWS)):
        yield batch
