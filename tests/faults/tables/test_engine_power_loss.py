"""Power fails while embedded tables are written: acknowledged writes are found, and the file is consistent.

The power loss is simulated by a VFS that forgets what was not synced.
"""

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

from .engine_consistency import assert_consistent, read_items, read_stream, replay, wait_until_settled
from .engine_job_process import BEGINNINGS
from .engine_work import TABLE, Items, compute_outcome, count_writes, group_by_worker, make_write, prepare
from .power_loss_vfs import power_loss_disk

CUTS = 200 if os.environ.get("HOLDFAST_SOAK") == "1" else 10
WORKERS = ("one", "two", "three", "four")


class Known(NamedTuple):
    """The number of a worker's durable writes, and the resulting items."""

    writes: int
    items: Items


@pytest.mark.parametrize("torn", [False, True], ids=["nothing unsynced survives", "torn"])
def test_every_acknowledged_write_survives_complete(tmp_path: Path, torn: bool) -> None:
    seed = SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # noqa: T201
    random = Random(seed)
    with power_loss_disk() as disk:
        # Small checkpoints, so that the power also fails in the middle of one.
        tuning = Tuning(checkpoint_pages=30)
        with open_tables(tmp_path / "tables.db", tuning=tuning) as tables:
            prepare(tables)
            surely = {worker: Known(0, {}) for worker in WORKERS}
            with run_work(tables) as work:
                for cut in range(CUTS):
                    work.await_more(random.randrange(1, 60))
                    acknowledged = dict(work.done)
                    folder = tmp_path / str(cut)
                    folder.mkdir()
                    found = disk.after_power_loss(tables.database.path, folder, random if torn else None)
                    with work.pause():
                        surely = check_writes(found, acknowledged, dict(work.begun), surely)


def test_background_work_cut_by_power_loss_is_completed_consistently(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Indexes and backups are being built when the power fails."""
    monkeypatch.setattr(worker, "LEASE_S", 0.05)
    monkeypatch.setattr(steps, "BACKFILL_BATCH_ITEMS", 3)
    monkeypatch.setattr(steps, "TRIM_BATCH_RECORDS", 3)
    seed = SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # noqa: T201
    random = Random(seed)
    with power_loss_disk() as disk:
        tuning = Tuning(checkpoint_pages=30)
        with open_tables(tmp_path / "tables.db", tuning=tuning) as tables:
            prepare(tables)
            with run_work(tables) as work, change_concurrently(tables):
                for cut in range(CUTS):
                    work.await_more(random.randrange(1, 40))
                    folder = tmp_path / str(cut)
                    folder.mkdir()
                    found = disk.after_power_loss(tables.database.path, folder, random)
                    with work.pause(), open_tables(found) as recovered:
                        assert_consistent(recovered)
                        wait_until_settled(recovered)
                        assert_consistent(recovered)
                        assert {one.status for one in recovered.run_blocking(ListBackups()).backups} <= {
                            "AVAILABLE"
                        }


@contextmanager
def change_concurrently(tables: EmbeddedTables) -> Iterator[None]:
    """Add and drop an index and make backups until the block is done."""
    over = threading.Event()

    def change() -> None:
        while not over.is_set():
            tables.run_blocking(BEGINNINGS["backfill"](tables))
            backup = tables.run_blocking(CreateBackup(TABLE, "a backup"))
            wait_until_settled(tables)
            tables.run_blocking(DeleteBackup(BackupName(TABLE, backup.id)))
            tables.run_blocking(UpdateTable(TABLE, index_changes=(DeleteIndex("new"),)))

    thread = threading.Thread(target=change)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def check_writes(
    path: Path, acknowledged: dict[str, int], begun: dict[str, int], surely: dict[str, Known]
) -> dict[str, Known]:
    """Check the file and return what is durable from now on: everything acknowledged before this cut."""
    with open_tables(path) as recovered:
        assert_consistent(recovered)
        items = read_items(recovered, TABLE)
        assert replay(read_stream(recovered, TABLE)) == items
    by_worker = group_by_worker(items)
    known = {}
    for name in WORKERS:
        first, before = surely[name]
        more = acknowledged[name] - first
        count_writes(name, first, begun[name] - first, more, before, by_worker.get(name, {}))
        known[name] = Known(acknowledged[name], compute_outcome(name, first, more, before))
    return known


class _Work:
    """Workers that write until they are stopped, and the counts of their begun and done writes."""

    def __init__(self, tables: EmbeddedTables) -> None:
        self._tables = tables
        self.begun = dict.fromkeys(WORKERS, 0)
        self.done = dict.fromkeys(WORKERS, 0)
        self.stopped = False
        self._allowed = threading.Event()
        self._allowed.set()
        self._grown = threading.Condition()

    def continue_working(self, worker: str) -> None:
        """Write as this worker until the work is stopped."""
        number = 0
        while self._allowed.wait() and not self.stopped:
            operation, _ = make_write(worker, number)
            self.begun[worker] = number = number + 1
            self._tables.run_blocking(operation)
            with self._grown:
                self.done[worker] = number
                self._grown.notify_all()

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Begin no new write, so that the result can be checked."""
        self._allowed.clear()
        try:
            yield
        finally:
            self._allowed.set()

    def await_more(self, count: int) -> None:
        """Wait until this many more writes are done."""
        with self._grown:
            wanted = sum(self.done.values()) + count
            assert self._grown.wait_for(lambda: sum(self.done.values()) >= wanted, timeout=60)


@contextmanager
def run_work(tables: EmbeddedTables) -> Iterator[_Work]:
    """Run a thread per worker while the block runs."""
    work = _Work(tables)
    threads = [threading.Thread(target=work.continue_working, args=(worker,)) for worker in WORKERS]
    for thread in threads:
        thread.start()
    try:
        yield work
    finally:
        work.stopped = True
        for thread in threads:
            thread.join()
