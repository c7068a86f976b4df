"""The sample: a company's year of travel, at any scale. 100 is the document's year: 5,000 bookings, 60,000 entries, 1,000 chunks.

Every employee has some bookings that are over, a few have one under way, and all of them cite a policy that was uploaded and read
like any other. Times count back from the clock, so that nothing in it has ended; only the first employee's bookings stand where
the document's examples do, and lose their audit when it is over. Contents follow from the numbers alone; ids of chunks are made
anew by whoever reads a policy. A booking is written in one transaction with all that belongs to it, and only where it is absent:
run again, the sample undoes nothing.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from holdfast import Put, Stores, batch_put, prepare
from holdfast.errors import InvalidRequest, TransactionCancelled
from holdfast.web.staging import environment
from tripcortex import patterns, sandbox
from tripcortex.model import Circuit, Connection, EmployeeId
from tripcortex.portal.circuit import KEPT_S, PORTAL_CIRCUIT
from tripcortex.sampling.bookings import UNDER_WAY, Traveller, written
from tripcortex.sampling.policies import handbooks, main_policy, rules_of, usual_passages
from tripcortex.sampling.trails import ulid_at
from tripcortex.sampling.trips import Market

EMPLOYEES: Final = 10
CHUNKS: Final = 10
# About as many rows as a booking has: itself, a dozen entries of its audit, and what belongs to one under way.
ROWS_PER_BOOKING: Final = 13.5
# The document's employee, and when the document's examples are.
FIRST: Final = 42
DOCUMENT_DAY: Final = datetime(2026, 3, 10, 14, 30, tzinfo=UTC)
# Of so many employees those after the first have a booking under way, one in each state.
IN_EACH: Final = 200
# Who is connected, and how often: fewer than 500 connections in all, as the document has it.
CONNECTED: Final = 90
CONNECTIONS: Final = 5
WRITERS: Final = 16

# Called with what is being done, how many rows are written, and about how many there will be.
Progress = Callable[[str, int, int], None]


async def sample(stores: Stores, *, scale: float = 1, progress: Progress | None = None) -> int:
    """Makes what is absent and fills the stores; gives the number of rows. It may be run again."""
    if scale <= 0:
        raise InvalidRequest(f"The scale of the sample is {scale}: give a number above 0, such as 1 or 0.1.")
    if stores.system is not None:
        await prepare(stores, stores.system)
    with environment(_missing_variables()):
        return await _Sampling(stores, scale, progress).run()


def _missing_variables() -> dict[str, str]:
    """The secret of tokens, where nobody has set another: the same that `holdfast up` sets."""
    told = sandbox.variables({}, "")
    return {name: value for name, value in told.items() if not os.environ.get(name)}


class _Sampling:
    """One run: how many rows are written, and of about how many."""

    def __init__(self, stores: Stores, scale: float, progress: Progress | None) -> None:
        self._stores, self._progress, self._rows = stores, progress, 0
        self._now = datetime.fromtimestamp(int(stores.clock.now()), UTC)
        self._travellers = list(_travellers(max(1, round(EMPLOYEES * scale)), self._now))
        self._chunks = round(CHUNKS * scale)
        bookings = sum(each.count for each in self._travellers)
        self._expected = self._chunks + round(bookings * ROWS_PER_BOOKING)

    async def run(self) -> int:
        policy, is_new = await main_policy(self._stores)
        chunks = policy.total_chunks or 0
        self._told("policies", chunks if is_new else 0)
        self._told("policies", await handbooks(self._stores, self._chunks - chunks))
        passages, confidence = await usual_passages(self._stores)
        market = Market(rules_of(policy), passages, confidence)
        travellers = iter(self._travellers)

        async def writer() -> None:
            for traveller in travellers:
                await self._write(market, traveller)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(WRITERS):
                    group.create_task(writer())
        except ExceptionGroup as several:
            raise several.exceptions[0] from several
        if await self._stores.run(Circuit.of(PORTAL_CIRCUIT).get()) is None:
            await self._stores.run(_circuit(self._now))
            self._told("circuit", 1)
        return self._rows

    async def _write(self, market: Market, traveller: Traveller) -> None:
        """What the employee has of these is the oldest of them: what comes after is written."""
        known = await self._stores.run(patterns.history(traveller.employee_id, limit=traveller.count))
        for place in range(len(known.items), traveller.count):
            writes = written(self._stores, market, traveller, place, now=self._now)
            try:
                await self._stores.transact(*writes)
            except TransactionCancelled:
                continue  # the employee has begun another booking since
            self._told("bookings", len(writes))
        if not known.items and traveller.number < CONNECTED:
            rows = list(_connections(traveller, self._now))
            await self._stores.run(batch_put(map(Connection.put, rows)))
            self._told("connections", len(rows))

    def _told(self, what: str, rows: int) -> None:
        self._rows += rows
        if self._progress is not None:
            self._progress(what, self._rows, max(self._rows, self._expected))


def _travellers(count: int, now: datetime) -> Iterator[Traveller]:
    for number in range(count):
        place = number % IN_EACH - 1
        yield Traveller(
            number,
            EmployeeId(f"emp-{FIRST + number}"),
            now if number else DOCUMENT_DAY,
            UNDER_WAY[place] if 0 <= place < len(UNDER_WAY) else None,
        )


def _connections(traveller: Traveller, now: datetime) -> Iterator[Connection]:
    for number in range(CONNECTIONS):
        at = now - timedelta(seconds=300 * number + traveller.number)
        connection_id = ulid_at(at, "connection", traveller.employee_id)
        yield Connection(connection_id=connection_id, employee_id=traveller.employee_id, connected_at=at)


def _circuit(now: datetime) -> Put[Circuit]:
    """Closed, after a failure."""
    return Circuit.put(
        Circuit(
            circuit_id=PORTAL_CIRCUIT,
            failure_count=1,
            last_failure_time=int(now.timestamp()) - 600,
            ttl=now + timedelta(seconds=KEPT_S),
        )
    )
