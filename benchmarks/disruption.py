"""SkyMarshal's answers: an index beside a scan, and one disruption at the document's sizes beside a hundred times those.

The floor of the first is the scan that finds the same bookings: the ratio says how much less the index reads, and how
much sooner it answers. The floor of the second is the small store: the ratio says how much of its rate is left at a
hundred times the data. Both stores are open in one process and take turns.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

from benchmarks.measure import ROUNDS, Figure
from holdfast import Stores, metered, open_stores
from holdfast.settings import Settings
from skymarshal import SYSTEM, patterns
from skymarshal.disruption import assess
from skymarshal.impact import DisruptionAsked
from skymarshal.model import Booking, PassengerId
from skymarshal.sample import sample
from skymarshal.statuses import DisruptionKind

SMALL, LARGE = 1, 100
GROWTH_MAX: Final = 1.5
FEWER_ITEMS_MIN, SOONER_MIN = 1_000, 100
# As many of each as make a round about as long as the other's.
QUERIES_EACH_ROUND, SCANS_EACH_ROUND, DISRUPTIONS_EACH_ROUND = 200, 1, 3
PASSENGER: Final = PassengerId("OZ69826352P")
# The document's flight 1, with its 412 passengers.
ASKED: Final = DisruptionAsked(
    kind=DisruptionKind.DELAY,
    flight_number="EY11",
    day=date(2026, 1, 30),
    delay_minutes=240,
    delay_code="41",
    known_at=datetime(2026, 1, 29, 22, tzinfo=UTC),
)

Work = Callable[[], Awaitable[object]]


def index_against_scan(folder: Path) -> list[Figure]:
    """One passenger's bookings, by the index and by a scan with a filter."""
    return asyncio.run(_index_against_scan(folder))


def at_scale(folder: Path) -> list[Figure]:
    """What a disruption of a flight with 412 passengers costs: time, items read, capacity units."""
    return asyncio.run(_at_scale(folder))


async def _index_against_scan(folder: Path) -> list[Figure]:
    async with _opened(folder / "sample.db") as stores:
        await sample(stores)
        scan = Booking.scan(reason="what the index saves").where(Booking.passenger_id == PASSENGER)

        async def by_index() -> object:
            return await stores.all(patterns.bookings_of_passenger(PASSENGER))

        async def by_scan() -> object:
            return await stores.all(scan)

        times = await _rounds((by_index, QUERIES_EACH_ROUND), (by_scan, SCANS_EACH_ROUND))
        items, items_scanned = (await _read(by_index))[0], (await _read(by_scan))[0]
    fewer = items_scanned / items
    return [
        Figure("index against scan, items", items, items_scanned, fewer, fewer, fewer, FEWER_ITEMS_MIN),
        _figure("index against scan, time", times, SOONER_MIN),
    ]


async def _at_scale(folder: Path) -> list[Figure]:
    async with _opened(folder / "small.db") as small, _opened(folder / "large.db") as large:
        await sample(small, scale=SMALL)
        await sample(large, scale=LARGE)
        return await compared_at_scale(small, large)


async def compared_at_scale(small: Stores, large: Stores) -> list[Figure]:
    async def at_large() -> object:
        return await assess(large, ASKED)

    async def at_small() -> object:
        return await assess(small, ASKED)

    times = await _rounds((at_large, DISRUPTIONS_EACH_ROUND), (at_small, DISRUPTIONS_EACH_ROUND))
    costs = zip(("items", "units"), await _read(at_large), await _read(at_small), strict=True)
    least = 1 / GROWTH_MAX
    return [
        _figure("disruption, 100 x data", times, least),
        *(
            Figure(f"disruption {what}, 100 x", more, few, few / more, few / more, few / more, least)
            for what, more, few in costs
        ),
    ]


def _opened(path: Path) -> Stores:
    return open_stores(SYSTEM, Settings(tables=f"sqlite:{path}"))


async def _rounds(ours: tuple[Work, int], floor: tuple[Work, int]) -> list[tuple[float, float]]:
    """Rates of alternating rounds, each of so many; one of each before, which the clock does not count."""
    await ours[0]()
    await floor[0]()
    return [(await _rate(*ours), await _rate(*floor)) for _ in range(ROUNDS)]


async def _rate(work: Work, times: int) -> float:
    begun = time.perf_counter()
    for _ in range(times):
        await work()
    return times / (time.perf_counter() - begun)


async def _read(work: Work) -> tuple[float, float]:
    with metered() as meter:
        await work()
    return meter.items_read, meter.units.read


def _figure(name: str, rounds: list[tuple[float, float]], must_reach: float) -> Figure:
    ratios = sorted(mine / theirs for mine, theirs in rounds)
    return Figure(
        name,
        statistics.median(mine for mine, _ in rounds),
        statistics.median(theirs for _, theirs in rounds),
        statistics.median(ratios),
        ratios[0],
        ratios[-1],
        must_reach,
    )
