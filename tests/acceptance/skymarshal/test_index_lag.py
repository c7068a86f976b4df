"""A manifest is read through a global index, which follows after a moment: what an airline sees until it has."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from holdfast import Stores, create_tables
from holdfast.stores.tables.dynamodb import open_dynamodb
from holdfast.stores.tables.embedded import Faults, open_tables
from skymarshal.domain.statuses import BookingStatus
from skymarshal.model import patterns, queries
from skymarshal.model.entities import BookingId, FlightId
from skymarshal.system import SYSTEM
from tests.acceptance.skymarshal.stage import Stage, booking, flight

LAG_S = 0.5
ONE = FlightId("1")


class HandClock:
    """Stands until it is moved."""

    moment = 1_800_000_000.0

    def now(self) -> float:
        return self.moment


def manifest(stage: Stage) -> list[str]:
    return [line.booking_id for line in stage.wait(queries.get_flight_manifest(stage.stores, ONE))]


@pytest.mark.proves("SM-X26")
def test_a_manifest_misses_a_booking_just_made_and_has_it_when_the_lag_has_passed() -> None:
    clock = HandClock()
    with open_tables(clock=clock, faults=Faults(index_lag_s=LAG_S)) as tables:
        stage = Stage(Stores(tables, system=SYSTEM, clock=clock))
        stage.wait(create_tables(stage.stores, SYSTEM.tables))
        stage.put(flight(), booking("B1", "P1"))
        clock.moment += LAG_S
        stage.put(booking("B2", "P2"), booking("B1", "P1", status=BookingStatus.CANCELLED))
        assert manifest(stage) == ["B1"]
        counted = stage.wait(stage.stores.run(patterns.count_on_flight(ONE, BookingStatus.CONFIRMED)))
        assert counted.count == 1
        by_key = [stage.wait(stage.stores.run(patterns.booking(BookingId(each)))) for each in ("B1", "B2")]
        assert [each and each.booking_status for each in by_key] == ["Cancelled", "Confirmed"]
        clock.moment += LAG_S
        assert manifest(stage) == ["B2"]


@pytest.mark.proves("SM-X26")
def test_a_server_told_to_let_its_indexes_lag_does(tmp_path: Path) -> None:
    """The lag is an hour, so that it is certain to last until the test is over."""
    with served(tmp_path, "--index-lag", "3600") as url, closing(open_dynamodb(endpoint=url)) as tables:
        stage = Stage(Stores(tables, system=SYSTEM))
        stage.wait(create_tables(stage.stores, SYSTEM.tables))
        stage.put(flight(), booking("B1", "P1"))
        assert stage.wait(stage.stores.run(patterns.booking(BookingId("B1")))) is not None
        assert manifest(stage) == []


@contextmanager
def served(folder: Path, *words: str) -> Iterator[str]:
    server = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "serve", "--memory", "--port", "0", *words],
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        found = re.search(r"http://\S+", server.stdout.readline())
        assert found is not None
        yield found[0]
    finally:
        server.terminate()
        server.communicate(timeout=30)
