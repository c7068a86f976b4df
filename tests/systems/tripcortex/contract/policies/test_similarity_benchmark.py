"""Test that the benchmark of A1 runs on a few chunks and reports the documented figures."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import uvloop

from benchmarks.harness.measurement import Figure
from benchmarks.tripcortex import similarity
from tests.postgres import new_folder


@pytest.mark.proves("TC-45")
def test_reports_the_95th_percentile_next_to_raw_psycopg(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("ROUNDS", 1), ("QUESTIONS", 8), ("ALONE", 40), ("CLUSTERS", 3)):
        monkeypatch.setattr(similarity, name, value)
    with new_folder() as folder:
        figure = measure(folder)
    expected = r"similarity \(A1\) at 60 chunks, p50 [\d.]+ ms, p95 [\d.]+ ms, \d+% of questions answered"
    assert re.fullmatch(expected, figure.name)
    assert figure.rate > 0 and figure.floor_rate > 0
    # Reported without a limit.
    assert figure.must_reach is None


def measure(folder: Path) -> Figure:
    """Run the benchmark on 60 chunks."""
    return uvloop.run(similarity._measure(folder, 60))
