"""The comparison of two checkouts, at small sizes: it measures; the figures themselves are not checked."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.checkouts import accepted_requests, compare
from benchmarks.checkouts.compare import Cost, format_table
from benchmarks.checkouts.table_costs import Subject
from holdfast.stores.tables.embedded import open_tables

ITEMS = 250


def test_measures_every_operation(tmp_path: Path) -> None:
    with open_tables(tmp_path / "tables.db") as tables:
        subject = Subject(tables, ITEMS)
        assert all(subject.measure(name) > 0 for name in subject.names)


def test_measures_two_checkouts_in_turns() -> None:
    costs = compare.compare(
        compare.ROOT, compare.ROOT, runs=2, slices=1, items=ITEMS, names=["keyed read", "query of 50"]
    )
    assert [cost.name for cost in costs] == ["keyed read", "query of 50"]
    assert all(len(cost.ratios) == 2 for cost in costs)


@pytest.mark.skipif(sys.platform != "linux", reason="reads processor times in /proc")
def test_measures_accepted_requests_of_two_checkouts_and_of_two_processes() -> None:
    costs = accepted_requests.measure(
        compare.ROOT, compare.ROOT, runs=1, slices=1, requests=4, connections=2, processes=2
    )
    assert [cost.name for cost in costs] == ["gateway", "PostgreSQL", "2 processes against one"]
    assert all(figure > 0 for cost in costs for figure in (*cost.before, *cost.after))


def test_refuses_a_folder_without_an_environment(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="it has no environment. Run make setup there"):
        compare.compare(tmp_path, compare.ROOT, runs=1, slices=1, items=ITEMS)


def test_formats_medians_quartiles_and_the_median_of_the_ratios() -> None:
    cost = Cost("put", [1000.0, 2000.0, 4000.0], [1100.0, 2000.0, 4200.0])
    assert format_table([cost]).splitlines()[-1] == (
        "| put | 2,000.0 (1,500.0–3,000.0) | 2,000.0 (1,550.0–3,100.0) | 1.050 (1.025–1.075) |"
    )
