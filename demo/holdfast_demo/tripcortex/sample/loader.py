"""Loader of the sample data: writes a company's year of travel to the stores, at any scale.

Scale 100 is the document's year: 5,000 bookings, 60,000 audit entries, 1,000 chunks.

Every employee has some ended bookings, a few have an active one, and all cite a policy that was uploaded and
ingested like any other. Times count back from the clock, so that nothing has expired; only the first
employee's bookings have the dates of the document's examples, and lose their audit entries when those expire.
Contents depend on the numbers alone; chunk ids are created at ingestion. A booking is written in one
transaction with everything that belongs to it, and only if it is absent: running the sample again changes
nothing.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from holdfast import Put, Stores, batch_put, provision
from holdfast.core.errors import InvalidRequest, TransactionCancelled
from holdfast.web.demo_env import patch_environ
from holdfast_demo.tripcortex import sandbox
from holdfast_demo.tripcortex.sample.audit_trails import build_ulid
from holdfast_demo.tripcortex.sample.bookings import ACTIVE_STATES, SampleTraveller, build_booking_writes
from holdfast_demo.tripcortex.sample.policies import (
    ensure_main_policy,
    load_rules,
    retrieve_usual_passages,
    write_handbooks,
)
from holdfast_demo.tripcortex.sample.trips import TripGenerator
from tripcortex.integrations.portal.circuit import PORTAL_CIRCUIT
from tripcortex.model import patterns
from tripcortex.model.entities import CIRCUIT_KEPT_S, Circuit, Connection, EmployeeId

EMPLOYEES: Final = 10
CHUNKS: Final = 10
# Approximate rows per booking: the booking, a dozen audit entries, and the extra rows of active bookings.
ROWS_PER_BOOKING: Final = 13.5
# The document's employee, and the time of the document's examples.
FIRST_EMPLOYEE: Final = 42
DOCUMENT_TIME: Final = datetime(2026, 3, 10, 14, 30, tzinfo=UTC)
# In each group of this many employees, those after the first have an active booking, one per state.
EMPLOYEES_PER_STATE_CYCLE: Final = 200
# 90 employees with 5 connections each: fewer than 500 in all, as in the document.
CONNECTED_EMPLOYEES: Final = 90
CONNECTIONS_PER_EMPLOYEE: Final = 5
CONCURRENT_WRITERS: Final = 16

# Called with a label, the rows written so far, and the approximate total.
Progress = Callable[[str, int, int], None]


async def load_sample(stores: Stores, *, scale: float = 1, progress: Progress | None = None) -> int:
    """Provision what is absent and write the sample; return the number of rows written.

    Running it again writes only what is missing. Raise `InvalidRequest` if the scale is not above 0.
    """
    if scale <= 0:
        raise InvalidRequest(f"Invalid sample scale {scale}: expected a number above 0, such as 1 or 0.1.")
    if stores.system is not None:
        await provision(stores, stores.system)
    with patch_environ(_get_missing_variables()):
        return await _SampleLoader(stores, scale, progress).run()


def _get_missing_variables() -> dict[str, str]:
    """Return the sandbox's variables that are not set, among them the flow token's secret."""
    values = sandbox.build_variables({}, "")
    return {name: value for name, value in values.items() if not os.environ.get(name)}


class _SampleLoader:
    """One run of the loader; counts the rows written against the expected total."""

    def __init__(self, stores: Stores, scale: float, progress: Progress | None) -> None:
        self._stores, self._progress, self._rows = stores, progress, 0
        self._now = datetime.fromtimestamp(int(stores.clock.now()), UTC)
        self._travellers = list(_generate_travellers(max(1, round(EMPLOYEES * scale)), self._now))
        self._chunks = round(CHUNKS * scale)
        bookings = sum(each.count for each in self._travellers)
        self._expected = self._chunks + round(bookings * ROWS_PER_BOOKING)

    async def run(self) -> int:
        """Write policies, bookings, connections and the circuit; return the number of rows written."""
        policy, is_new = await ensure_main_policy(self._stores)
        chunks = policy.total_chunks or 0
        self._report("policies", chunks if is_new else 0)
        self._report("policies", await write_handbooks(self._stores, self._chunks - chunks))
        passages, confidence = await retrieve_usual_passages(self._stores)
        market = TripGenerator(await load_rules(self._stores, policy), passages, confidence)
        travellers = iter(self._travellers)

        async def writer() -> None:
            for traveller in travellers:
                await self._write(market, traveller)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(CONCURRENT_WRITERS):
                    group.create_task(writer())
        except ExceptionGroup as several:
            raise several.exceptions[0] from several
        if await self._stores.run(Circuit.of(PORTAL_CIRCUIT).get()) is None:
            await self._stores.run(_build_circuit_write(self._now))
            self._report("circuit", 1)
        return self._rows

    async def _write(self, market: TripGenerator, traveller: SampleTraveller) -> None:
        """Write a traveller's missing bookings and, for a new traveller, connections.

        Bookings that exist are the oldest, so continue after them.
        """
        known = await self._stores.run(patterns.history(traveller.employee_id, limit=traveller.count))
        for place in range(len(known.items), traveller.count):
            writes = build_booking_writes(self._stores, market, traveller, place, now=self._now)
            try:
                await self._stores.transact(*writes)
            except TransactionCancelled:
                continue  # the employee has started another booking since
            self._report("bookings", len(writes))
        if not known.items and traveller.number < CONNECTED_EMPLOYEES:
            rows = list(_generate_connections(traveller, self._now))
            await self._stores.run(batch_put(map(Connection.put, rows)))
            self._report("connections", len(rows))

    def _report(self, label: str, rows: int) -> None:
        """Add `rows` to the count and report it as progress."""
        self._rows += rows
        if self._progress is not None:
            self._progress(label, self._rows, max(self._rows, self._expected))


def _generate_travellers(count: int, now: datetime) -> Iterator[SampleTraveller]:
    """Yield `count` employees from emp-42 on.

    In each group of 200, numbers 1 to 9 have an active booking, one per state.
    """
    for number in range(count):
        place = number % EMPLOYEES_PER_STATE_CYCLE - 1
        yield SampleTraveller(
            number,
            EmployeeId(f"emp-{FIRST_EMPLOYEE + number}"),
            now if number else DOCUMENT_TIME,
            ACTIVE_STATES[place] if 0 <= place < len(ACTIVE_STATES) else None,
        )


def _generate_connections(traveller: SampleTraveller, now: datetime) -> Iterator[Connection]:
    """Yield five connections, each five minutes older than the one before."""
    for number in range(CONNECTIONS_PER_EMPLOYEE):
        at = now - timedelta(seconds=300 * number + traveller.number)
        connection_id = build_ulid(at, "connection", traveller.employee_id)
        yield Connection(connection_id=connection_id, employee_id=traveller.employee_id, connected_at=at)


def _build_circuit_write(now: datetime) -> Put[Circuit]:
    """Return the write of a closed circuit with one failure."""
    return Circuit.put(
        Circuit(
            circuit_id=PORTAL_CIRCUIT,
            failure_count=1,
            last_failure_time=int(now.timestamp()) - 600,
            ttl=now + timedelta(seconds=CIRCUIT_KEPT_S),
        )
    )
