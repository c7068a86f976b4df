"""Power fails while the engine writes: what was acknowledged is found again, and the file agrees with itself."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random, SystemRandom
from typing import NamedTuple

import pytest

from holdfast.operations.tables import (
    BackupName,
    CreateBackup,
    DeleteBackup,
    DeleteIndex,
    ListBackups,
    UpdateTable,
)
from holdfast.stores.sqlite import Tuning
from holdfast.stores.tables.embedded import EmbeddedTables, open_tables
from holdfast.stores.tables.embedded.jobs import steps, worker

from .engine_consistency import assert_consistent, items_of, replayed, settled, stream_of
from .engine_job_process import BEGINNINGS
from .engine_work import TABLE, Items, items_by_worker, outcome, prepare, write, writes_found
from .power_loss_vfs import power_loss_disk

CUTS = 200 if os.environ.get("HOLDFAST_SOAK") == "1" else 10
WORKERS = ("one", "two", "three", "four")


class Known(NamedTuple):
    """How many writes of a worker are surely on the disk, and what they made."""

    writes: int
    items: Items


@pytest.mark.parametrize("torn", [False, True], ids=["nothing unsynced survives", "torn"])
def test_every_acknowledged_write_survives_and_none_by_half(tmp_path: Path, torn: bool) -> None:
    seed = SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # noqa: T201
    random = Random(seed)
    with power_loss_disk() as disk:
        # Small checkpoints, so that the power also fails in the middle of one.
        tuning = Tuning(vfs=disk.name, checkpoint_pages=30)
        with open_tables(tmp_path / "tables.db", tuning=tuning) as tables:
            prepare(tables)
            surely = {worker: Known(0, {}) for worker in WORKERS}
            with _working(tables) as work:
                for cut in range(CUTS):
                    work.await_more(random.randrange(1, 60))
                    acknowledged = dict(work.done)
                    folder = tmp_path / str(cut)
                    folder.mkdir()
                    found = disk.after_power_loss(tables.database.path, folder, random if torn else None)
                    with work.paused():
                        surely = _judged(found, acknowledged, dict(work.begun), surely)


def test_background_work_survives_too_and_is_ended_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Indexes and backups in the making when the power fails."""
    monkeypatch.setattr(worker, "LEASE_S", 0.05)
    monkeypatch.setattr(steps, "BACKFILL_BATCH_ITEMS", 3)
    monkeypatch.setattr(steps, "TRIM_BATCH_RECORDS", 3)
    seed = SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # noqa: T201
    random = Random(seed)
    with power_loss_disk() as disk:
        tuning = Tuning(vfs=disk.name, checkpoint_pages=30)
        with open_tables(tmp_path / "tables.db", tuning=tuning) as tables:
            prepare(tables)
            with _working(tables) as work, _changing(tables):
                for cut in range(CUTS):
                    work.await_more(random.randrange(1, 40))
                    folder = tmp_path / str(cut)
                    folder.mkdir()
                    found = disk.after_power_loss(tables.database.path, folder, random)
                    with work.paused(), open_tables(found) as recovered:
                        assert_consistent(recovered)
                        settled(recovered)
                        assert_consistent(recovered)
                        assert {one.status for one in recovered.run_blocking(ListBackups()).backups} <= {
                            "AVAILABLE"
                        }


@contextmanager
def _changing(tables: EmbeddedTables) -> Iterator[None]:
    """An index that comes and goes, and backups, until the block is done."""
    over = threading.Event()

    def change() -> None:
        while not over.is_set():
            tables.run_blocking(BEGINNINGS["backfill"](tables))
            backup = tables.run_blocking(CreateBackup(TABLE, "a backup"))
            settled(tables)
            tables.run_blocking(DeleteBackup(BackupName(TABLE, backup.id)))
            tables.run_blocking(UpdateTable(TABLE, index_changes=(DeleteIndex("new"),)))

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _judged(
    path: Path, acknowledged: dict[str, int], begun: dict[str, int], surely: dict[str, Known]
) -> dict[str, Known]:
    """What is surely there from now on: what was acknowledged before this cut."""
    with open_tables(path) as recovered:
        assert_consistent(recovered)
        items = items_of(recovered, TABLE)
        assert replayed(stream_of(recovered, TABLE)) == items
    by_worker = items_by_worker(items)
    known = {}
    for name in WORKERS:
        first, before = surely[name]
        more = acknowledged[name] - first
        writes_found(name, first, begun[name] - first, more, before, by_worker.get(name, {}))
        known[name] = Known(acknowledged[name], outcome(name, first, more, before))
    return known


class _Work:
    """Counts of writes begun and done, by worker."""

    def __init__(self, tables: EmbeddedTables) -> None:
        self._tables = tables
        self.begun = dict.fromkeys(WORKERS, 0)
        self.done = dict.fromkeys(WORKERS, 0)
        self.stopped = False
        self._allowed = threading.Event()
        self._allowed.set()
        self._grown = threading.Condition()

    def go_on(self, worker: str) -> None:
        number = 0
        while self._allowed.wait() and not self.stopped:
            operation, _ = write(worker, number)
            self.begun[worker] = number = number + 1
            self._tables.run_blocking(operation)
            with self._grown:
                self.done[worker] = number
                self._grown.notify_all()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """No new write is begun, so that what was found is judged at leisure."""
        self._allowed.clear()
        try:
            yield
        finally:
            self._allowed.set()

    def await_more(self, count: int) -> None:
        with self._grown:
            wanted = sum(self.done.values()) + count
            assert self._grown.wait_for(lambda: sum(self.done.values()) >= wanted, timeout=60)


@contextmanager
def _working(tables: EmbeddedTables) -> Iterator[_Work]:
    work = _Work(tables)
    threads = [threading.Thread(target=work.go_on, args=(worker,)) for worker in WORKERS]
    for thread in threads:
        thread.start()
    try:
        yield work
    finally:
        work.stopped = True
        for thread in threads:
            thread.join()
