"""Benchmark: SkyMarshal's index queries compared with scans, and disruptions at 100 times the data.

The floor of the first is the scan that finds the same bookings: the ratio says how much less the index reads,
and how much faster it is. The floor of the second is the small store: the ratio says how much of its rate is
left at a hundred times the data. Both stores are open in one process and take turns.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Final

from benchmarks.harness.measurement import ROUNDS, Figure
from holdfast import Stores, open_stores
from holdfast.config.settings import Settings
from holdfast.runtime import meter_usage
from holdfast_demo.skymarshal.sample.loader import load_sample
from skymarshal.disruptions.assessment import assess
from skymarshal.disruptions.report import DisruptionRequest
from skymarshal.domain.statuses import DisruptionKind
from skymarshal.model import patterns
from skymarshal.model.entities import Booking, PassengerId
from skymarshal.system import SYSTEM

SMALL, LARGE = 1, 100
MAX_GROWTH: Final = 1.5
MIN_FEWER_ITEMS, MIN_FASTER = 1_000, 100
# Chosen so that rounds take about the same time.
QUERIES_EACH_ROUND, SCANS_EACH_ROUND, DISRUPTIONS_EACH_ROUND = 200, 1, 3
PASSENGER: Final = PassengerId("OZ69826352P")
# The document's flight 1, with its 412 passengers.
DISRUPTION: Final = DisruptionRequest(
    kind=DisruptionKind.DELAY,
    flight_number="EY11",
    day=date(2026, 1, 30),
    delay_minutes=240,
    delay_code="41",
    known_at=datetime(2026, 1, 29, 22, tzinfo=UTC),
)

Work = Callable[[], Awaitable[object]]


def compare_index_with_scan(folder: Path) -> list[Figure]:
    """Read one passenger's bookings by the index, and by a scan with a filter."""
    return asyncio.run(_compare_index_with_scan(folder))


def run_at_scale(folder: Path) -> list[Figure]:
    """Measure a disruption of a flight with 412 passengers: time, items read, capacity units."""
    return asyncio.run(_run_at_scale(folder))


async def _compare_index_with_scan(folder: Path) -> list[Figure]:
    async with _open_stores(folder / "sample.db") as stores:
        await load_sample(stores)
        scan = Booking.scan(reason="what the index saves").where(Booking.passenger_id == PASSENGER)

        async def by_index() -> object:
            return await stores.all(patterns.bookings_of_passenger(PASSENGER))

        async def by_scan() -> object:
            return await stores.all(scan)

        times = await _run_rounds((by_index, QUERIES_EACH_ROUND), (by_scan, SCANS_EACH_ROUND))
        items, items_scanned = (await _measure_reads(by_index))[0], (await _measure_reads(by_scan))[0]
    fewer = items_scanned / items
    return [
        Figure("index against scan, items", items, items_scanned, fewer, fewer, fewer, MIN_FEWER_ITEMS),
        _build_figure("index against scan, time", times, MIN_FASTER),
    ]


async def _run_at_scale(folder: Path) -> list[Figure]:
    async with _open_stores(folder / "small.db") as small, _open_stores(folder / "large.db") as large:
        await load_sample(small, scale=SMALL)
        await load_sample(large, scale=LARGE)
        return await compare_at_scale(small, large)


async def compare_at_scale(small: Stores, large: Stores) -> list[Figure]:
    """Assess the disruption in both stores in turn; return figures of time, items read and capacity units."""

    async def at_large() -> object:
        return await assess(large, DISRUPTION)

    async def at_small() -> object:
        return await assess(small, DISRUPTION)

    times = await _run_rounds((at_large, DISRUPTIONS_EACH_ROUND), (at_small, DISRUPTIONS_EACH_ROUND))
    costs = zip(
        ("items", "units"), await _measure_reads(at_large), await _measure_reads(at_small), strict=True
    )
    least = 1 / MAX_GROWTH
    return [
        _build_figure("disruption, 100 x data", times, least),
        *(
            Figure(f"disruption {what}, 100 x", more, few, few / more, few / more, few / more, least)
            for what, more, few in costs
        ),
    ]


def _open_stores(path: Path) -> Stores:
    return open_stores(SYSTEM, Settings(tables=f"sqlite:{path}"))


async def _run_rounds(ours: tuple[Work, int], floor: tuple[Work, int]) -> list[tuple[float, float]]:
    """Return the rates of alternating rounds, after one call of each. A pair is the work and its calls per
    round.
    """
    await ours[0]()
    await floor[0]()
    return [(await _measure_rate(*ours), await _measure_rate(*floor)) for _ in range(ROUNDS)]


async def _measure_rate(work: Work, times: int) -> float:
    started = time.perf_counter()
    for _ in range(times):
        await work()
    return times / (time.perf_counter() - started)


async def _measure_reads(work: Work) -> tuple[float, float]:
    """Run the work once and return the number of items read and the read units."""
    with meter_usage() as meter:
        await work()
    return meter.items_read, meter.units.read


def _build_figure(name: str, rounds: list[tuple[float, float]], must_reach: float) -> Figure:
    """Build a figure from the rates of each round, ours and the floor's."""
    ratios = sorted(ours / floor for ours, floor in rounds)
    return Figure(
        name,
        statistics.median(ours for ours, _ in rounds),
        statistics.median(floor for _, floor in rounds),
        statistics.median(ratios),
        ratios[0],
        ratios[-1],
        must_reach,
    )
