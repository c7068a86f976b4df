"""Power fails while the engine writes: what was acknowledged is found again, and the file agrees with itself."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random, SystemRandom

import pytest

from holdfast.stores.sqlite import Tuning
from holdfast.stores.tables.embedded import EmbeddedTables, open_tables

from .engine_consistency import assert_consistent, items_of, replayed, stream_of
from .engine_work import TABLE, items_by_worker, prepare, write, writes_found
from .power_loss_vfs import power_loss_disk

CUTS = 200 if os.environ.get("HOLDFAST_SOAK") == "1" else 10
WORKERS = ("one", "two", "three", "four")


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
            with _working(tables) as work:
                for cut in range(CUTS):
                    work.await_more(random.randrange(1, 60))
                    acknowledged = dict(work.done)
                    folder = tmp_path / str(cut)
                    folder.mkdir()
                    found = disk.after_power_loss(tables.database.path, folder, random if torn else None)
                    _judge(found, acknowledged, dict(work.begun))


def _judge(path: Path, acknowledged: dict[str, int], begun: dict[str, int]) -> None:
    with open_tables(path) as recovered:
        assert_consistent(recovered)
        items = items_of(recovered, TABLE)
        assert replayed(stream_of(recovered, TABLE)) == items
    by_worker = items_by_worker(items)
    for worker in WORKERS:
        writes_found(worker, 0, begun[worker], acknowledged[worker], {}, by_worker.get(worker, {}))


class _Work:
    """Counts of writes begun and done, by worker."""

    def __init__(self, tables: EmbeddedTables) -> None:
        self._tables = tables
        self.begun = dict.fromkeys(WORKERS, 0)
        self.done = dict.fromkeys(WORKERS, 0)
        self.stopped = False
        self._grown = threading.Condition()

    def go_on(self, worker: str) -> None:
        number = 0
        while not self.stopped:
            operation, _ = write(worker, number)
            self.begun[worker] = number = number + 1
            self._tables.run_blocking(operation)
            with self._grown:
                self.done[worker] = number
                self._grown.notify_all()

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
