"""What Trip Cortex asks most, at ten of the document's years beside one: 50,000 bookings, 600,000 audit entries, 10,000 chunks.

The floor of these figures is the document's year, and the ratio says how much of its rate is left. Both are filled with the
system's sample and open in one process, on the embedded tables and a PostgreSQL each, and take turns. A request is the whole of
it: the transaction that creates a booking, takes the employee's place and starts the flow, and the first step on its way.
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

from benchmarks.measure import ROUNDS, Figure, figure_of, tell
from holdfast import Stores, Ulid, open_stores, prepare
from holdfast.settings import IN_MEMORY, MEMORY_OBJECTS, SQLITE_SCHEME, TEMPORARY_SQL, Settings
from tripcortex import SYSTEM, patterns
from tripcortex.knowledge import patterns as policies
from tripcortex.knowledge.embedding import LOCAL, local_embedding
from tripcortex.knowledge.schema import tripcortex
from tripcortex.model import EmployeeId
from tripcortex.requesting import Traveller, request_booking
from tripcortex.sample import EMPLOYEES, FIRST, sample

YEAR, TEN_YEARS = 100, 1_000
MUST_REACH: Final = 1 / 1.5
READS_EACH_ROUND: Final = 100
REQUESTS_EACH_ROUND: Final = 40
SEED: Final = 7
# Some employees are asked about, all over the table.
ASKED_ABOUT: Final = 200
QUESTIONS: Final = (
    "Which cabin may I book for a flight of seven hours?",
    "How early do I have to book a domestic flight?",
    "What is the most that a hotel night may cost?",
    "Which airlines does the company prefer?",
)


def run(folder: Path) -> list[Figure]:
    return asyncio.run(_compared(folder))


async def _compared(folder: Path) -> list[Figure]:
    async with AsyncExitStack() as stack:
        large = await stack.enter_async_context(_opened(folder / "ten-years.db", TEN_YEARS))
        small = await stack.enter_async_context(_opened(folder / "year.db", YEAR))
        figures = []
        for name, (work, count, must_reach) in WORK.items():
            rounds = []
            for _ in range(ROUNDS + 1):
                rounds.append(
                    (await _rate(partial(work, large), count), await _rate(partial(work, small), count))
                )
            # The first of them warmed both up.
            figures.append(figure_of(f"{name}, 10 x the year", rounds[1:], must_reach))
        more, few = await _units(large), await _units(small)
        left = few / more
        figures.append(Figure("units of these reads, 10 x the year", more, few, left, left, left, MUST_REACH))
        return figures


@dataclass(frozen=True)
class Company:
    """Stores with so many employees, and some of their bookings to ask about, one after the other for ever."""

    stores: Stores
    now: datetime
    asked_about: itertools.cycle[tuple[EmployeeId, Ulid]]
    vectors: itertools.cycle[str]
    numbers: itertools.count[int]


@asynccontextmanager
async def _opened(file: Path, scale: int) -> AsyncIterator[Company]:
    settings = Settings(
        tables=f"{SQLITE_SCHEME}{file}",
        queues=IN_MEMORY,
        objects=MEMORY_OBJECTS,
        sql=TEMPORARY_SQL,
        environment="bench",
    )
    async with open_stores(SYSTEM, settings) as stores:
        await prepare(stores, SYSTEM)
        await sample(stores, scale=scale, progress=tell)
        # PostgreSQL does so by itself after a while; until then it takes the chunks for few, and reads them all.
        await stores.run(tripcortex.change("ANALYZE tripcortex.policy_chunks, tripcortex.policies"))
        numbers = Random(SEED).sample(range(EMPLOYEES * scale), min(ASKED_ABOUT, EMPLOYEES * scale))
        known = [await _booking_of(stores, EmployeeId(f"emp-{FIRST + number}")) for number in numbers]
        embedding = local_embedding()
        vectors = [vector for each in QUESTIONS if (vector := embedding.question(each)) is not None]
        yield Company(
            stores,
            datetime.fromtimestamp(stores.clock.now(), UTC),
            itertools.cycle(known),
            itertools.cycle(vectors),
            itertools.count(),
        )


async def _booking_of(stores: Stores, employee_id: EmployeeId) -> tuple[EmployeeId, Ulid]:
    found = await stores.run(patterns.history(employee_id, limit=1))
    return employee_id, found.items[0].booking_id


# --- what is asked -------------------------------------------------------------------------------------------------


async def _active(company: Company) -> object:
    employee_id, _ = next(company.asked_about)
    return await company.stores.all(patterns.active_bookings_of(employee_id))


async def _booking(company: Company) -> object:
    return await company.stores.run(patterns.booking(*next(company.asked_about)))


async def _history(company: Company) -> object:
    employee_id, _ = next(company.asked_about)
    return await company.stores.run(patterns.history(employee_id))


async def _trail(company: Company) -> object:
    _, booking_id = next(company.asked_about)
    return await company.stores.run(patterns.trail(booking_id))


async def _audit(company: Company) -> object:
    employee_id, _ = next(company.asked_about)
    since = company.now - timedelta(days=90)
    return await company.stores.run(patterns.employee_audit(employee_id, since, company.now))


async def _similar(company: Company) -> object:
    vector = next(company.vectors)
    return await company.stores.run(policies.similar_chunks(vector, threshold=0.3, model_id=LOCAL))


async def _request(company: Company) -> object:
    traveller = Traveller(EmployeeId(f"new-{next(company.numbers)}"), "Asia/Kolkata", "HYD")
    sentence = "Book me a flight to Chicago next Tuesday returning Thursday, prefer United"
    return await request_booking(company.stores, traveller, sentence)


Work = Callable[[Company], Awaitable[object]]
READS: Final[tuple[Work, ...]] = (_active, _booking, _history, _trail, _audit)
WORK: Final[dict[str, tuple[Work, int, float | None]]] = {
    "D6 active booking": (_active, READS_EACH_ROUND, MUST_REACH),
    "D8 booking": (_booking, READS_EACH_ROUND, MUST_REACH),
    "D9 history": (_history, READS_EACH_ROUND, MUST_REACH),
    "D11 trail": (_trail, READS_EACH_ROUND, MUST_REACH),
    "D12 employee's audit": (_audit, READS_EACH_ROUND, MUST_REACH),
    # An index of ten times the vectors is searched deeper: `similarity` measures it by itself.
    "A1 similar chunks": (_similar, READS_EACH_ROUND, None),
    "booking requested": (_request, REQUESTS_EACH_ROUND, MUST_REACH),
}


async def _rate(work: Callable[[], Awaitable[object]], times: int) -> float:
    began = time.perf_counter()
    for _ in range(times):
        await work()
    return times / (time.perf_counter() - began)


async def _units(company: Company) -> float:
    """Of all these reads, about some employees."""
    with company.stores.metered() as meter:
        for work in READS:
            for _ in range(READS_EACH_ROUND):
                await work(company)
    return sum(usage.units.read for usage in meter.usages)
