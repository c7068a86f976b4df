"""Power fails while the committer writes: every acknowledged unit of work is stored, and none in part.

The power loss is simulated by a VFS that forgets what was not synced.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random, SystemRandom
from tempfile import TemporaryDirectory
from typing import Literal

import pytest

from holdfast.stores.sqlite import Database, Tuning
from tests.faults.tables.power_loss_vfs import PowerLossDisk, power_loss_disk
from tests.unit.stores.sqlite.pairs import numbers_in, open_pairs, pair

ROUNDS = 10 if os.environ.get("HOLDFAST_SOAK") == "1" else 1
CUTS = 25
THREADS = 6
FILLING = bytes(1500)


@pytest.fixture
def disk() -> Iterator[PowerLossDisk]:
    with power_loss_disk() as disk:
        yield disk


@pytest.mark.parametrize("torn", [False, True], ids=["nothing unsynced survives", "torn"])
def test_every_acknowledged_pair_survives_complete(disk: PowerLossDisk, tmp_path: Path, torn: bool) -> None:
    random = make_random()
    for _ in range(ROUNDS):
        with TemporaryDirectory(dir=tmp_path) as folder:
            cut_running_database(disk, Path(folder), random, random if torn else None)


def cut_running_database(disk: PowerLossDisk, folder: Path, random: Random, torn: Random | None) -> None:
    # Small checkpoints, so that the power also fails in the middle of one.
    """Cut the power several times while threads write, and check each recovered file."""
    tuning = Tuning(checkpoint_pages=30)
    with open_pairs(folder / "pairs.db", tuning) as database, _run_writers(database) as acknowledged:
        for cut in range(CUTS):
            await_more(acknowledged, random.randrange(1, 40))
            known = set(acknowledged)
            after = folder / str(cut)
            after.mkdir()
            with open_pairs(disk.after_power_loss(database.path, after, torn)) as recovered:
                assert recovered.check() == []
                assert known <= numbers_in(recovered)


@pytest.mark.parametrize("synchronous", ["NORMAL", "OFF"])
def test_the_simulation_catches_a_database_that_does_not_sync(
    disk: PowerLossDisk, tmp_path: Path, synchronous: Literal["NORMAL", "OFF"]
) -> None:
    with open_pairs(tmp_path / "pairs.db", Tuning()):
        pass
    with open_pairs(tmp_path / "pairs.db", Tuning(synchronous=synchronous)) as database:
        for number in range(10):
            database.write(pair(number))
        folder = tmp_path / "after"
        folder.mkdir()
        with open_pairs(disk.after_power_loss(database.path, folder)) as recovered:
            assert numbers_in(recovered) < set(range(10))


def test_file_that_lost_power_during_creation_can_be_opened(disk: PowerLossDisk, tmp_path: Path) -> None:
    with open_pairs(tmp_path / "pairs.db", Tuning()) as database:
        folder = tmp_path / "after"
        folder.mkdir()
        with open_pairs(disk.after_power_loss(database.path, folder)) as recovered:
            recovered.write(pair(1))
            assert numbers_in(recovered) == {1}


def test_many_waiting_writers_share_a_sync(disk: PowerLossDisk, tmp_path: Path) -> None:
    with open_pairs(tmp_path / "pairs.db", Tuning()) as database:
        before = disk.syncs
        with _run_writers(database, threads=32) as acknowledged:
            await_more(acknowledged, 1600)
        assert (disk.syncs - before) / len(acknowledged) <= 0.1


def make_random() -> Random:
    seed = SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # noqa: T201
    return Random(seed)


class _Acknowledged(list[int]):
    """The acknowledged numbers, with a condition that is notified of each."""

    def __init__(self) -> None:
        super().__init__()
        self.grown = threading.Condition()

    def note(self, number: int) -> None:
        with self.grown:
            self.append(number)
            self.grown.notify_all()


@contextmanager
def _run_writers(database: Database, threads: int = THREADS) -> Iterator[_Acknowledged]:
    """Write pairs in several threads while the block runs; yield the acknowledged numbers."""
    acknowledged = _Acknowledged()
    stop = threading.Event()

    def write_pairs(thread: int) -> None:
        number = thread
        while not stop.is_set():
            acknowledged.note(database.write(pair(number, FILLING)))
            number += threads

    writers = [threading.Thread(target=write_pairs, args=(number,)) for number in range(threads)]
    for writer in writers:
        writer.start()
    try:
        yield acknowledged
    finally:
        stop.set()
        for writer in writers:
            writer.join()


def await_more(acknowledged: _Acknowledged, count: int) -> None:
    """Wait until this many more numbers are acknowledged."""
    with acknowledged.grown:
        wanted = len(acknowledged) + count
        assert acknowledged.grown.wait_for(lambda: len(acknowledged) >= wanted, timeout=60)
