"""PAGW's benchmarks at small sizes: they run and return figures; the figures themselves are not checked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.harness import measurement
from benchmarks.harness.measurement import Figure
from benchmarks.pagw import intake, request_scale, sql_statements
from benchmarks.report import BENCHMARKS, SCALE
from holdfast import Rate, pattern
from holdfast.model.sql import SqlRows
from pagw.model.entities import PagwId, pagw
from tests.postgres import connect, create_database, new_folder


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with new_folder() as made:
        yield made


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every benchmark run one round."""
    monkeypatch.setattr(measurement, "ROUNDS", 1)


def test_every_benchmark_of_sql_and_pagw_is_listed() -> None:
    assert {"sql", "pagw-accepted", "pagw-pipeline", "pagw-latency"} <= BENCHMARKS.keys()
    assert "pagw-scale" in SCALE


def test_measures_sql_patterns_next_to_raw_psycopg(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"ROUNDS": 1, "READS": 16, "STEPS": 8, "REQUESTS": 8}.items():
        monkeypatch.setattr(sql_statements, name, value)

    _assert_measured(sql_statements.run(folder), 2)


@pytest.mark.soak
def test_measures_requests_among_few_and_many_tracked_ones(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = {"FEW": 20, "MANY": 60, "ROUNDS": 1, "ACCEPTED": 4, "COMPLETED": 1}
    for name, value in sizes.items():
        monkeypatch.setattr(request_scale, name, value)

    _assert_measured(request_scale.run(folder), 4)


def test_rejects_a_statement_that_reads_a_whole_table(monkeypatch: pytest.MonkeyPatch) -> None:
    @pattern("X1", "By what has no index", rate=Rate("question"), example=("c-1",))
    def by_correlation(correlation_id: str) -> SqlRows[PagwId]:
        return pagw.rows(
            PagwId,
            "SELECT {columns} FROM pagw.request_tracker WHERE correlation_id = %(correlation_id)s",
            correlation_id=correlation_id,
        )

    with connect(create_database(pagw)) as connection:
        request_scale._refuse_scans(connection, 1)
        monkeypatch.setattr(request_scale, "HOT", (by_correlation,))
        with pytest.raises(AssertionError, match="X1 reads a whole table"):
            request_scale._refuse_scans(connection, 1)


@pytest.mark.soak
def test_measures_accepted_requests_over_http(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "REQUESTS", 4)
    monkeypatch.setattr(intake, "CONNECTIONS", 2)

    _assert_measured(intake.run(folder), 2)


def _assert_measured(figures: list[Figure], count: int) -> None:
    """Check that there are this many figures, all with positive rates."""
    assert len(figures) == count
    assert all(each.rate > 0 and each.floor_rate > 0 for each in figures)
