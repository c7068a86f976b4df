"""The embedded engine's background worker: lost and renewed leases, and wake-ups for new jobs."""

from __future__ import annotations

import queue
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.core.clock import SYSTEM_CLOCK
from holdfast.core.errors import LeaseLost
from holdfast.operations.tables import (
    BackupName,
    CreateBackup,
    CreateIndex,
    CreateTable,
    DescribeBackup,
    DescribeTable,
    KeyAttribute,
    PutItem,
    UpdateTable,
)
from holdfast.stores.sqlite import Leases
from holdfast.stores.tables.embedded import EmbeddedTables, open_tables
from holdfast.stores.tables.embedded.jobs import worker
from holdfast.stores.tables.embedded.jobs.worker import LEASE, LEASE_S, Worker

from .stepped_engine import BATCH, BY_N, FakeClock, SteppedEngine, definition, open_stepped_engine

ITEMS = 8 * BATCH
ADD_BY_N = UpdateTable("tab", (KeyAttribute("n", "N"),), index_changes=(CreateIndex(BY_N),))


def begin_long_work(engine: SteppedEngine) -> None:
    """Fill a table and start the backfill of an index, which takes many steps."""
    engine.run(CreateTable(definition()))
    for at in range(ITEMS):
        engine.run(PutItem("tab", {"pk": f"{at}", "n": at}))
    engine.run(ADD_BY_N)


def count_indexed_items(engine: SteppedEngine) -> int:
    return engine.run(DescribeTable("tab")).global_indexes["by_n"].item_count


def before_each_round(monkeypatch: pytest.MonkeyPatch, act: Callable[[int], None]) -> None:
    """Call `act` before each of the worker's rounds, with the number of rounds done so far."""
    original, rounds = Worker._run_round, iter(range(1000))

    def count_round(self: Worker, *arguments: object) -> None:
        act(next(rounds))
        original(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Worker, "_run_round", count_round)


def test_worker_that_lost_its_lease_stops(
    engine: SteppedEngine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    begin_long_work(engine)
    theirs = Leases(engine.tables.database, lambda: SYSTEM_CLOCK.now() + LEASE_S, seconds=LEASE_S)
    changes: list[int] = []

    def take_over(rounds_done: int) -> None:
        if rounds_done == 2:
            assert theirs.take(LEASE) is not None
            changes.append(total_changes(engine.tables))

    before_each_round(monkeypatch, take_over)
    engine.tables.sweep()

    assert count_indexed_items(engine) == 2 * BATCH
    assert engine.pending() == 1
    assert changes == [total_changes(engine.tables)]
    assert "another process has taken over" in caplog.text
    holder = theirs.holder(LEASE)
    assert holder is not None
    assert holder.owner == theirs.owner


def test_unit_under_a_lost_lease_is_refused(engine: SteppedEngine) -> None:
    begin_long_work(engine)
    lost = engine.tables._worker._leases.take(LEASE)
    assert lost is not None
    assert (
        Leases(engine.tables.database, lambda: SYSTEM_CLOCK.now() + LEASE_S, seconds=LEASE_S).take(LEASE)
        is not None
    )
    reached: list[str] = []

    with pytest.raises(LeaseLost):
        engine.tables._worker._run_unit(lost, lambda writer: reached.append("the work"))
    assert reached == []


def total_changes(tables: EmbeddedTables) -> int:
    """Return how many rows were ever changed; in memory one connection does all writes."""
    with tables.database.read_connection() as connection:
        return connection.total_changes()


def test_work_that_lasts_longer_than_a_lease_renews_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real_time = FakeClock()
    monkeypatch.setattr(worker, "SYSTEM_CLOCK", real_time)
    with open_stepped_engine(monkeypatch) as engine:
        begin_long_work(engine)
        theirs = Leases(engine.tables.database, real_time.now, seconds=LEASE_S)
        begun = real_time.moment

        def pass_time(rounds_done: int) -> None:
            real_time.moment += 0.4 * LEASE_S
            assert theirs.take(LEASE) is None

        before_each_round(monkeypatch, pass_time)
        engine.tables.sweep()

        assert real_time.moment - begun > 2 * LEASE_S
        assert count_indexed_items(engine) == ITEMS
        assert engine.pending() == 0


@pytest.mark.parametrize("place", ["memory", "file"])
def test_job_starts_on_commit_without_waiting_for_the_next_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setattr(worker, "IDLE_S", 3600.0)
    swept: queue.Queue[None] = queue.Queue()
    original = Worker.sweep

    def sweep_and_notify(self: Worker) -> None:
        original(self)
        swept.put(None)

    monkeypatch.setattr(Worker, "sweep", sweep_and_notify)
    with open_tables(None if place == "memory" else tmp_path / "t.db") as tables:
        swept.get(timeout=20)
        tables.run_blocking(CreateTable(definition()))
        swept.get(timeout=20)
        name = BackupName("tab", tables.run_blocking(CreateBackup("tab", "b")).id)
        while tables.run_blocking(DescribeBackup(name)).summary.status != "AVAILABLE":
            swept.get(timeout=20)
