"""The sample: an airline's data at the document's sizes, the same bytes on every run, at any scale.

`sampling` plans a block of five days at a time; this module creates the tables and writes block after block by the
import patterns, several batches at once. Nothing of one block is kept when the next begins.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, TypeVar

from holdfast import BatchPut, Stores, create_tables
from holdfast.errors import ConditionFailed, InvalidRequest
from skymarshal import patterns
from skymarshal.model import TABLES
from skymarshal.roster import duty_of
from skymarshal.sampling.bags import BAGS, bag_counts, bags, paid_for
from skymarshal.sampling.crews import crew_assignments
from skymarshal.sampling.freight import cargo_assignments
from skymarshal.sampling.hits import disruptions
from skymarshal.sampling.journeys import BOOKINGS, bookings, journeys
from skymarshal.sampling.schedule import Block, blocks
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
    await create_tables(stores, TABLES if stores.system is None else stores.system.tables)
    writing = _Writing(stores, int(ROWS_PER_BLOCK * scale), progress)
    for block in blocks(scale):
        await _write_block(writing, block)
    return writing.rows


async def _write_block(writing: _Writing, block: Block) -> None:
    planned = journeys(block)
    counts = bag_counts(block, planned)
    flights = (departure.flight for departure in block.departures.values())
    await writing.put("flights", patterns.import_flights, flights)
    people = (journey.passenger for journey in planned)
    await writing.put("passengers", patterns.import_passengers, people)
    await writing.put("bookings", patterns.import_bookings, bookings(planned, paid_for(block, counts)))
    await writing.put("bags", patterns.import_bags, bags(block, planned, counts))
    crews = list(crew_assignments(block))
    await writing.put("crew", patterns.import_crew_assignments, crews)
    await writing.put("crew", patterns.import_crew_duties, map(duty_of, crews))
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


class _Writing:
    """Rows on their way into the stores, and how many have arrived."""

    def __init__(self, stores: Stores, expected: int, progress: Progress | None) -> None:
        self.stores, self.rows = stores, 0
        self._expected, self._progress = expected, progress

    async def put(
        self, what: str, pattern: Callable[[Sequence[E]], BatchPut[Any]], rows: Iterable[E]
    ) -> None:
        """Several writers take the next batch each, so that only their batches are in memory."""
        batches = _batches(rows)

        async def writer() -> None:
            for batch in batches:
                await self.stores.run(pattern(batch))
                self.rows += len(batch)
                if self._progress is not None:
                    self._progress(what, self.rows, max(self.rows, self._expected))

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(WRITERS):
                    group.create_task(writer())
        except ExceptionGroup as several:
            raise several.exceptions[0] from several


def _batches(rows: Iterable[E]) -> Iterator[list[E]]:
    source = iter(rows)
    while batch := list(islice(source, BATCH_ROWS)):
        yield batch
