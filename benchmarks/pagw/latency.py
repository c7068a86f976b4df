"""Benchmark: the time of PAGW's access patterns on the embedded engines, next to the document's targets.

The design document gives a latency for reads and writes of each of its four services; the embedded engines
stand for them on one machine. Each pattern runs with its example on scratch stores, and a figure is the
median of the patterns that read, or write, one store. There is no minimum: the time depends on the machine.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from benchmarks.harness.measurement import Figure, build_figure
from holdfast.reports.measurement.data_sources import open_sample_data
from holdfast.reports.measurement.pattern_measures import Measure, measure_patterns
from pagw.system import SYSTEM

ROUNDS: Final = 3
MS_PER_S: Final = 1000.0
# "Performance Characteristics" of the document: the slowest acceptable time, in milliseconds. It says less
# than one and less than five for tables, five to twenty for SQL, up to a hundred and two hundred for objects.
TARGETS_MS: Final[Mapping[tuple[str, str], float]] = {
    ("tables", "read"): 1.0,
    ("tables", "write"): 5.0,
    ("sql", "read"): 20.0,
    ("sql", "write"): 20.0,
    ("objects", "read"): 100.0,
    ("objects", "write"): 200.0,
    ("cache", "read"): 1.0,
    ("cache", "write"): 1.0,
}


def run(folder: Path) -> list[Figure]:
    """Measure all patterns in rounds, and return a figure for each target."""
    del folder
    return build_figures(asyncio.run(_measure_rounds()))


async def _measure_rounds() -> list[list[Measure]]:
    """Measure all patterns once per round, on one set of scratch stores each."""
    rounds = []
    for _ in range(ROUNDS):
        async with open_sample_data(SYSTEM) as source:
            rounds.append(await measure_patterns(source, SYSTEM.patterns))
    return rounds


def build_figures(rounds: Sequence[Sequence[Measure]]) -> list[Figure]:
    """Return calls per second of each kind next to those of its target."""
    return [
        build_figure(
            f"PAGW {store}: {kind}, within {target_ms:g} ms",
            [(MS_PER_S / compute_median_ms(each, store, kind), MS_PER_S / target_ms) for each in rounds],
            None,
        )
        for (store, kind), target_ms in TARGETS_MS.items()
    ]


def compute_median_ms(measures: Sequence[Measure], store: str, kind: str) -> float:
    """Return the median time of the measured patterns that read or write a store."""
    return statistics.median(
        each.ms
        for each in measures
        if each.ms is not None
        and each.pattern.build_example().store == store
        and ("write" if each.pattern.writes else "read") == kind
    )
