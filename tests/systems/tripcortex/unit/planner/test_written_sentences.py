"""Tests that the sentences which were written without the planner in view are never planned wrongly.

The files are those of `benchmarks/tripcortex/cases/sentences` that were worked on; the held-out one is only
measured.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Final

from tests.cases import all_cases
from tests.systems.tripcortex.unit.planner.measure import Measured, measure

CASES: Final = Path(__file__).parents[5] / "benchmarks/tripcortex/cases/sentences"
# The least share of complete requests that are planned without a question.
LEAST_PLANNED: Final = 0.95


async def measure_file(name: str) -> list[Measured]:
    lines = (CASES / name).read_text("utf-8").splitlines()
    return [await measure(json.loads(each)) for each in lines if each.strip()]


@all_cases(("name",), [("in_view.jsonl",), ("varied.jsonl",)])
async def test_no_sentence_is_planned_wrongly(name: str) -> None:
    results = await measure_file(name)
    assert [each.record["sentence"] for each in results if each.verdict == "wrong"] == []
    other = [each for each in results if each.group == "not book"]
    assert [each.record["sentence"] for each in other if each.verdict == "planned"] == []
    counts = Counter(each.verdict for each in results if each.group == "complete")
    assert counts["right"] >= LEAST_PLANNED * sum(counts.values()), counts
