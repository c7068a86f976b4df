"""Every access pattern of the gateway is run and timed on the embedded engine of its store.

No time is asserted: it depends on the machine and on the engine.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from benchmarks.pagw.latency import TARGETS_MS, build_figures, compute_median_ms
from holdfast.reports.measurement.data_sources import open_sample_data
from holdfast.reports.measurement.pattern_measures import Measure, measure_patterns
from pagw.system import SYSTEM

# The document's table, by read and write: DynamoDB, Aurora, S3 and ElastiCache.
DOCUMENTED_MS = {"tables": (1, 5), "sql": (20, 20), "objects": (100, 200), "cache": (1, 1)}


@pytest.mark.proves("PG-54", "PG-X4")
async def test_measures_every_pattern_on_its_engine_next_to_the_documents_targets() -> None:
    async with open_sample_data(SYSTEM) as source:
        found: list[Measure] = list(await measure_patterns(source, SYSTEM.patterns))

    assert {each.pattern.id: each.reason for each in found if not each.is_measured} == {}
    assert {usage.store for each in found for usage in each.usages} == {*DOCUMENTED_MS, "queues"}
    assert all(each.ms is not None and each.ms > 0 for each in found)

    documented = {
        (store, kind): float(target)
        for store, targets in DOCUMENTED_MS.items()
        for kind, target in zip(("read", "write"), targets, strict=True)
    }
    assert documented == TARGETS_MS
    # Each figure has the time of several patterns, and follows it.
    kinds = Counter((each.pattern.build_example().store, each.pattern.writes) for each in found)
    assert all(kinds[store, kind == "write"] >= 2 for store, kind in TARGETS_MS)
    figures = build_figures([found])
    assert len(figures) == len(TARGETS_MS)
    for figure, ((store, kind), target) in zip(figures, TARGETS_MS.items(), strict=True):
        assert figure.rate == pytest.approx(1000 / compute_median_ms(found, store, kind))
        assert figure.floor_rate == pytest.approx(1000 / target)
    slower = [replace(each, ms=2 * (each.ms or 0)) for each in found]
    for figure, slow in zip(figures, build_figures([slower]), strict=True):
        assert slow.ratio == pytest.approx(figure.ratio / 2)
