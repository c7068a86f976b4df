"""The sample loader: an airline's data at the design document's sizes, or at any scale.

The data is the same, byte for byte, on every run. The other modules of this package plan a block of five days
at a time. This one creates the tables and writes block after block through the import patterns, several
batches at once. No block stays in memory when the next begins.

Loading again undoes no later decision: flights, rosters and decisions are written only where they are absent.
The crew roster is written to both of its tables and the new one is read, as after its migration. In a store
that already has a roster, the sample adds to the authoritative table and leaves it authoritative.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, NamedTuple, TypeVar

from holdfast import Stores, batch_get
from holdfast.core.errors import ConditionFailed, InvalidRequest
from holdfast.guarantees import MigrationState, Phase
from holdfast.model.entities import BatchGet, BatchPut
from holdfast.runtime import create_tables
from holdfast_demo.skymarshal.sample.bags import BAGS, build_bags, count_bags, count_paid_bags
from holdfast_demo.skymarshal.sample.cargo import build_cargo_assignments
from holdfast_demo.skymarshal.sample.crew import build_crew_assignments
from holdfast_demo.skymarshal.sample.journeys import BOOKINGS, build_bookings, build_journeys
from holdfast_demo.skymarshal.sample.maintenance import build_maintenance_shifts, build_work_orders
from holdfast_demo.skymarshal.sample.past_disruptions import build_disruptions
from holdfast_demo.skymarshal.sample.schedule import SAMPLE_TIME, Block, build_blocks
from skymarshal.model import patterns
from skymarshal.model.entities import TABLES, CrewAssignment, CrewDuty, Flight, crew_roster
from skymarshal.model.roster import CREW_ROSTER_V2, build_row_count_update, build_switched_state, to_duty

E = TypeVar("E")

# The most rows that one request takes, and enough concurrent requests to keep an engine busy without
# filling memory.
BATCH_ROWS: Final = 25
WRITERS: Final = 16
# Bookings, bags, passengers and the rest; used only for the progress bar.
ROWS_PER_BLOCK: Final = BOOKINGS + BAGS + 11_000

# Called with the kind of rows, the number written and the approximate total.
Progress = Callable[[str, int, int], None]


async def load_sample(stores: Stores, *, scale: float = 1, progress: Progress | None = None) -> int:
    """Create the absent tables, fill all tables and return the number of rows, existing ones included.

    `scale` 1 is the design document's size; `progress` is called after each batch. It may be run again. Raise
    `InvalidRequest` unless the scale is above 0.
    """
    if scale <= 0:
        raise InvalidRequest(f"Invalid scale {scale}: expected a number above 0, such as 1 or 0.1.")
    tables = TABLES if stores.system is None else stores.system.tables
    state = await CREW_ROSTER_V2.load_state(stores)
    is_removed = state is not None and state.phase is Phase.REMOVED
    await create_tables(stores, [each for each in tables if not (is_removed and each is crew_roster)])
    rosters = await _choose_roster_tables(stores, state)
    writer = _RowWriter(stores, int(ROWS_PER_BLOCK * scale), progress)
    for block in build_blocks(scale):
        await _write_block(writer, block, rosters)
    if rosters.is_started_here:
        await stores.run(await build_row_count_update(stores))
    return writer.rows_written


class _RosterTables(NamedTuple):
    """The tables that the sample's crews are written to.

    `is_started_here` means that the sample itself created the roster and has not filled it yet. A full roster
    only gets the crews of blocks that a larger scale adds, so that released crews do not return.
    """

    in_old_table: bool
    in_new_table: bool
    is_started_here: bool = False
    is_full: bool = False


async def _choose_roster_tables(stores: Stores, state: MigrationState | None) -> _RosterTables:
    """Choose the roster tables to write to, by the state of the migration."""
    if state is None:
        existing = await stores.run(CrewAssignment.scan(reason="Check whether a roster exists").page(1))
        if existing.items:
            return _RosterTables(True, False)
        await stores.run(build_switched_state(SAMPLE_TIME))
        return _RosterTables(True, True, is_started_here=True)
    if state.phase not in (Phase.SWITCHED, Phase.REMOVED):
        return _RosterTables(True, False)
    # A state without a row count is the sample's own, left by an interrupted run.
    return (
        _RosterTables(True, True, is_started_here=True)
        if state.rows is None
        else _RosterTables(False, True, is_full=True)
    )


async def _write_block(writer: _RowWriter, block: Block, rosters: _RosterTables) -> None:
    """Generate the rows of a block and write them table by table.

    `rosters` says where its crews are written.
    """
    planned = build_journeys(block)
    counts = count_bags(block, planned)
    flights = [departure.flight for departure in block.departures.values()]
    is_new = await writer.stores.run(patterns.flight(flights[0].flight_id)) is None
    await writer.write("flights", patterns.import_flights, flights, look_up=_look_up_flights)
    people = (journey.passenger for journey in planned)
    await writer.write("passengers", patterns.import_passengers, people)
    await writer.write(
        "bookings", patterns.import_bookings, build_bookings(planned, count_paid_bags(block, counts))
    )
    await writer.write("bags", patterns.import_bags, build_bags(block, planned, counts))
    crews = list(build_crew_assignments(block))
    if rosters.in_old_table:
        await writer.write("crew", patterns.import_crew_assignments, crews, look_up=_look_up_assignments)
    if rosters.in_new_table and (is_new or not rosters.is_full):
        await writer.write("crew", patterns.import_crew_duties, map(to_duty, crews), look_up=_look_up_duties)
    await writer.write("cargo", patterns.import_cargo, build_cargo_assignments(block))
    orders = (work.order for work in build_work_orders(block))
    await writer.write("maintenance", patterns.import_work_orders, orders)
    shifts = build_maintenance_shifts(block, build_work_orders(block))
    await writer.write("maintenance", patterns.import_maintenance_shifts, shifts)
    for disruption, hit in build_disruptions(block, planned):
        try:
            await writer.stores.run(patterns.record_disruption(disruption))
        except ConditionFailed:
            pass  # An earlier run recorded it.
        await writer.write("disruptions", patterns.note_disrupted_passengers, hit)


def _look_up_flights(rows: Sequence[Flight]) -> BatchGet[Flight]:
    """Build the batch read that finds these flights if they exist."""
    return patterns.flights_by_id([row.flight_id for row in rows])


def _look_up_assignments(rows: Sequence[CrewAssignment]) -> BatchGet[CrewAssignment]:
    """Build the batch read that finds these rows of the old roster table if they exist."""
    return batch_get(CrewAssignment.of(row.roster_id).get() for row in rows)


def _look_up_duties(rows: Sequence[CrewDuty]) -> BatchGet[CrewDuty]:
    """Build the batch read that finds these rows of the new roster table if they exist."""
    return batch_get(CrewDuty.of(row.crew_id).get(row.duty_start, row.roster_id) for row in rows)


class _RowWriter:
    """A writer of rows in batches that counts them and reports progress.

    `expected` is the approximate total.
    """

    def __init__(self, stores: Stores, expected: int, progress: Progress | None) -> None:
        self.stores, self.rows_written = stores, 0
        self._expected, self._progress = expected, progress

    async def write(
        self,
        label: str,
        pattern: Callable[[Sequence[E]], BatchPut[Any]],
        rows: Iterable[E],
        look_up: Callable[[Sequence[E]], BatchGet[Any]] | None = None,
    ) -> None:
        """Write rows with several concurrent writers, so that only their batches are in memory.

        With `look_up`, which builds the read of a batch's rows, existing rows are left as they are.
        """
        batches = _split_batches(rows)

        async def write_batches() -> None:
            for rows in batches:
                new = rows if look_up is None else await self._select_absent(rows, look_up(rows))
                if new:
                    await self.stores.run(pattern(new))
                self.rows_written += len(rows)
                if self._progress is not None:
                    self._progress(label, self.rows_written, max(self.rows_written, self._expected))

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(WRITERS):
                    group.create_task(write_batches())
        except ExceptionGroup as several:
            raise several.exceptions[0] from several

    async def _select_absent(self, rows: Sequence[E], look_up: BatchGet[Any]) -> list[E]:
        """Return those of the rows that the read does not find."""
        found = await self.stores.run(look_up)
        return [row for row, existing in zip(rows, found, strict=True) if existing is None]


def _split_batches(rows: Iterable[E]) -> Iterator[list[E]]:
    """Yield the rows in lists of at most 25."""
    source = iter(rows)
    while batch := list(islice(source, BATCH_ROWS)):
        yield batch
