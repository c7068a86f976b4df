"""Every access pattern of the gateway is run and timed on the embedded engine of its store.

No time is asserted: it depends on the machine and on the engine.
"""

from __future__ import annotations

import pytest

from holdfast.reports.measurement.data_sources import open_sample_data
from holdfast.reports.measurement.pattern_measures import Measure, measure_patterns
from pagw.system import SYSTEM


@pytest.mark.proves("PG-54", "PG-X4")
async def test_measures_every_pattern_on_its_engine() -> None:
    async def measure() -> list[Measure]:
        async with open_sample_data(SYSTEM) as ground:
            return list(await measure_patterns(ground, SYSTEM.patterns))

    found = await measure()

    assert {each.pattern.id: each.reason for each in found if not each.is_measured} == {}
    assert {usage.store for each in found for usage in each.usages} == {
        "tables",
        "sql",
        "objects",
        "cache",
        "queues",
    }
    assert all(each.ms is not None and each.ms > 0 for each in found)
