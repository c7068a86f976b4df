"""Benchmark: Trip Cortex's frequent calls per second on ten years of data, compared with one year.

Ten years are 50,000 bookings, 600,000 audit entries and 10,000 chunks. The floor of these figures is the
document's year, and the ratio says how much of its rate is left. Both are filled with the system's sample and
open in one process, on the embedded tables and a PostgreSQL each, and take turns. A booking request is
complete: the transaction that creates a booking, takes the employee's slot and starts the flow, and the
dispatch of the first step.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

from benchmarks.harness.measurement import ROUNDS, Figure, build_figure, report_progress
from holdfast import Stores, open_stores, provision
from holdfast.config.settings import IN_MEMORY, MEMORY_OBJECTS, SQLITE_SCHEME, TEMPORARY_SQL, Settings
from holdfast.model.ulids import Ulid
from holdfast_demo.tripcortex.sample.loader import EMPLOYEES, FIRST_EMPLOYEE, load_sample
from tripcortex.model import patterns
from tripcortex.model.entities import EmployeeId
from tripcortex.model.policies import patterns as policies
from tripcortex.model.policies.schema import tripcortex
from tripcortex.policies.embedding import LOCAL, build_local_embedding
from tripcortex.system import SYSTEM
from tripcortex.workers.booking_requests import Requester, request_booking

YEAR, TEN_YEARS = 100, 1_000
MUST_REACH: Final = 1 / 1.5
READS_EACH_ROUND: Final = 100
REQUESTS_EACH_ROUND: Final = 40
SEED: Final = 7
# The reads are about this many employees, all over the table.
SAMPLED_EMPLOYEES: Final = 200
QUESTIONS: Final = (
    "Which cabin may I book for a flight of seven hours?",
    "How early do I have to book a domestic flight?",
    "What is the most that a hotel night may cost?",
    "Which airlines does the company prefer?",
)


def run(folder: Path) -> list[Figure]:
    return asyncio.run(_compare(folder))


async def _compare(folder: Path) -> list[Figure]:
    """Open both companies, measure every call in alternating rounds, and compare the read units."""
    async with AsyncExitStack() as stack:
        large = await stack.enter_async_context(_open_company(folder / "ten-years.db", TEN_YEARS))
        small = await stack.enter_async_context(_open_company(folder / "year.db", YEAR))
        figures = []
        for name, (work, count, must_reach) in CALLS.items():
            rounds = []
            for _ in range(ROUNDS + 1):
                rounds.append(
                    (
                        await _measure_rate(partial(work, large), count),
                        await _measure_rate(partial(work, small), count),
                    )
                )
            # The first round is a warm-up.
            figures.append(build_figure(f"{name}, 10 x the year", rounds[1:], must_reach))
        more, few = await _measure_read_units(large), await _measure_read_units(small)
        left = few / more
        figures.append(Figure("units of these reads, 10 x the year", more, few, left, left, left, MUST_REACH))
        return figures


@dataclass(frozen=True)
class Company:
    """Stores filled with sample data, and endless cycles of bookings, question vectors and new numbers."""

    stores: Stores
    now: datetime
    bookings: itertools.cycle[tuple[EmployeeId, Ulid]]
    vectors: itertools.cycle[str]
    numbers: itertools.count[int]


@asynccontextmanager
async def _open_company(file: Path, scale: int) -> AsyncIterator[Company]:
    """Open stores with `scale` times the sample, and choose employees whose bookings are read."""
    settings = Settings(
        tables=f"{SQLITE_SCHEME}{file}",
        queues=IN_MEMORY,
        objects=MEMORY_OBJECTS,
        sql=TEMPORARY_SQL,
        environment="bench",
    )
    async with open_stores(SYSTEM, settings) as stores:
        await provision(stores, SYSTEM)
        await load_sample(stores, scale=scale, progress=report_progress)
        # PostgreSQL analyzes tables after a while; until then it assumes few chunks and scans them all.
        await stores.run(tripcortex.change("ANALYZE tripcortex.policy_chunks, tripcortex.policies"))
        numbers = Random(SEED).sample(range(EMPLOYEES * scale), min(SAMPLED_EMPLOYEES, EMPLOYEES * scale))
        known = [
            await _find_booking(stores, EmployeeId(f"emp-{FIRST_EMPLOYEE + number}")) for number in numbers
        ]
        embedding = build_local_embedding()
        vectors = [vector for each in QUESTIONS if (vector := embedding.embed_question(each)) is not None]
        yield Company(
            stores,
            datetime.fromtimestamp(stores.clock.now(), UTC),
            itertools.cycle(known),
            itertools.cycle(vectors),
            itertools.count(),
        )


async def _find_booking(stores: Stores, employee_id: EmployeeId) -> tuple[EmployeeId, Ulid]:
    """Return the employee and the id of their latest booking."""
    found = await stores.run(patterns.history(employee_id, limit=1))
    return employee_id, found.items[0].booking_id


# --- calls --------------------------------------------------------------------------------------------------


async def _read_active_bookings(company: Company) -> object:
    employee_id, _ = next(company.bookings)
    return await company.stores.all(patterns.active_bookings_of(employee_id))


async def _read_booking(company: Company) -> object:
    return await company.stores.run(patterns.booking(*next(company.bookings)))


async def _read_history(company: Company) -> object:
    employee_id, _ = next(company.bookings)
    return await company.stores.run(patterns.history(employee_id))


async def _read_trail(company: Company) -> object:
    """Read the audit trail of the next booking."""
    _, booking_id = next(company.bookings)
    return await company.stores.run(patterns.trail(booking_id))


async def _read_audit(company: Company) -> object:
    """Read the next employee's audit entries of the last 90 days."""
    employee_id, _ = next(company.bookings)
    since = company.now - timedelta(days=90)
    return await company.stores.run(patterns.employee_audit(employee_id, since, company.now))


async def _find_similar_chunks(company: Company) -> object:
    vector = next(company.vectors)
    return await company.stores.run(policies.similar_chunks(vector, threshold=0.3, model_id=LOCAL))


async def _submit_request(company: Company) -> object:
    """Request a booking for a new employee."""
    traveller = Requester(EmployeeId(f"new-{next(company.numbers)}"), "Asia/Kolkata", "HYD")
    sentence = "Book me a flight to Chicago next Tuesday returning Thursday, prefer United"
    return await request_booking(company.stores, traveller, sentence)


Call = Callable[[Company], Awaitable[object]]
READS: Final[tuple[Call, ...]] = (
    _read_active_bookings,
    _read_booking,
    _read_history,
    _read_trail,
    _read_audit,
)
CALLS: Final[dict[str, tuple[Call, int, float | None]]] = {
    "D6 active booking": (_read_active_bookings, READS_EACH_ROUND, MUST_REACH),
    "D8 booking": (_read_booking, READS_EACH_ROUND, MUST_REACH),
    "D9 history": (_read_history, READS_EACH_ROUND, MUST_REACH),
    "D11 trail": (_read_trail, READS_EACH_ROUND, MUST_REACH),
    "D12 employee's audit": (_read_audit, READS_EACH_ROUND, MUST_REACH),
    # A vector index of ten times the size is searched deeper: `similarity` measures that.
    "A1 similar chunks": (_find_similar_chunks, READS_EACH_ROUND, None),
    "booking requested": (_submit_request, REQUESTS_EACH_ROUND, MUST_REACH),
}


async def _measure_rate(work: Callable[[], Awaitable[object]], times: int) -> float:
    started = time.perf_counter()
    for _ in range(times):
        await work()
    return times / (time.perf_counter() - started)


async def _measure_read_units(company: Company) -> float:
    """Return the read units of one round of all reads."""
    with company.stores.meter_usage() as meter:
        for work in READS:
            for _ in range(READS_EACH_ROUND):
                await work(company)
    return sum(usage.units.read for usage in meter.usages)
