"""Index lag in memory and on a served engine: a manifest follows its table only after a delay."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from holdfast import Stores
from holdfast.runtime import create_tables
from holdfast.stores.tables.dynamodb import open_dynamodb
from holdfast.stores.tables.embedded import EngineFaults, open_tables
from skymarshal.domain.statuses import BookingStatus
from skymarshal.model import patterns, queries
from skymarshal.model.entities import BookingId, FlightId
from skymarshal.system import SYSTEM
from tests.systems.skymarshal.acceptance.small_airline import Airline, booking, flight

LAG_S = 0.5
ONE = FlightId("1")


class ManualClock:
    """Clock that moves only when a test sets it."""

    moment = 1_800_000_000.0

    def now(self) -> float:
        return self.moment


def read_manifest(airline: Airline) -> list[str]:
    """Return the booking ids on the manifest of flight 1."""
    return [line.booking_id for line in airline.wait(queries.get_flight_manifest(airline.stores, ONE))]


@pytest.mark.proves("SM-X26")
def test_manifest_shows_a_new_booking_after_the_index_lag() -> None:
    clock = ManualClock()
    with open_tables(clock=clock, faults=EngineFaults(index_lag_s=LAG_S)) as tables:
        airline = Airline(Stores(tables, system=SYSTEM, clock=clock))
        airline.wait(create_tables(airline.stores, SYSTEM.tables))
        airline.put(flight(), booking("B1", "P1"))
        clock.moment += LAG_S
        airline.put(booking("B2", "P2"), booking("B1", "P1", status=BookingStatus.CANCELLED))
        assert read_manifest(airline) == ["B1"]
        counted = airline.wait(airline.stores.run(patterns.count_on_flight(ONE, BookingStatus.CONFIRMED)))
        assert counted.count == 1
        by_key = [
            airline.wait(airline.stores.run(patterns.booking(BookingId(each)))) for each in ("B1", "B2")
        ]
        assert [each and each.booking_status for each in by_key] == ["Cancelled", "Confirmed"]
        clock.moment += LAG_S
        assert read_manifest(airline) == ["B2"]


@pytest.mark.proves("SM-X26")
def test_server_applies_the_configured_index_lag(tmp_path: Path) -> None:
    """The lag is an hour, so that it lasts until the test ends."""
    with serve(tmp_path, "--index-lag", "3600") as url, closing(open_dynamodb(endpoint=url)) as tables:
        airline = Airline(Stores(tables, system=SYSTEM))
        airline.wait(create_tables(airline.stores, SYSTEM.tables))
        airline.put(flight(), booking("B1", "P1"))
        assert airline.wait(airline.stores.run(patterns.booking(BookingId("B1")))) is not None
        assert read_manifest(airline) == []


@contextmanager
def serve(folder: Path, *words: str) -> Iterator[str]:
    """Run `holdfast serve --memory` in a process, with these further arguments, and yield its address."""
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
