"""A process that writes to embedded tables is killed at random: acknowledged writes are stored whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random, SystemRandom

from holdfast.operations.tables import (
    CreateIndex,
    DeleteIndex,
    IndexDefinition,
    IndexProjection,
    KeyAttribute,
    KeySchema,
    RestoreTableToPointInTime,
    UpdateTable,
)
from holdfast.stores.tables.embedded import open_tables

from .engine_consistency import assert_consistent, read_items, read_stream, replay, wait_until_settled
from .engine_work import TABLE, Items, count_writes, group_by_worker, prepare

ROOT = Path(__file__).parents[3]
KILLS = 500 if os.environ.get("HOLDFAST_SOAK") == "1" else 20
CHANGES = 100 if KILLS > 20 else 6
WORKERS = ("one", "two", "three")
ADD_INDEX = UpdateTable(
    TABLE,
    (KeyAttribute("g", "S"), KeyAttribute("n", "N")),
    index_changes=(CreateIndex(IndexDefinition("new", KeySchema("g", "n"), IndexProjection("KEYS_ONLY"))),),
)


def test_every_write_survives_a_kill_whole_or_not_at_all(tmp_path: Path) -> None:
    seed = SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # noqa: T201
    random = Random(seed)
    path = tmp_path / "tables.db"
    with open_tables(path) as tables:
        prepare(tables)
    first = 0
    before: dict[str, Items] = {}
    with run_writers(path) as start:
        for _ in range(KILLS):
            begun, done = start(first, random.randrange(1, 120))
            with open_tables(path) as tables:
                assert_consistent(tables)
                items = read_items(tables, TABLE)
                assert replay(read_stream(tables, TABLE)) == items
            before = check_writes(first, begun, done, before, items)
            first += max(begun.values()) + 1


def test_point_in_time_restore_after_a_kill_equals_the_table(tmp_path: Path) -> None:
    path = tmp_path / "tables.db"
    with open_tables(path) as tables:
        prepare(tables)
    with run_writers(path) as start:
        start(0, 200)
    with open_tables(path) as tables:
        items = read_items(tables, TABLE)
        tables.run_blocking(RestoreTableToPointInTime(TABLE, "restored"))
        wait_until_settled(tables)
        assert read_items(tables, "restored") == items
        assert_consistent(tables)


def test_writing_process_maintains_indexes_that_another_adds_and_drops(tmp_path: Path) -> None:
    path = tmp_path / "tables.db"
    with open_tables(path) as tables, run_writers(path) as start:
        prepare(tables)

        def change_definitions() -> None:
            for _ in range(CHANGES):
                tables.run_blocking(ADD_INDEX)
                wait_until_settled(tables)
                tables.run_blocking(UpdateTable(TABLE, index_changes=(DeleteIndex("new"),)))
            tables.run_blocking(ADD_INDEX)

        begun, done = start(0, 100, meanwhile=change_definitions)
        wait_until_settled(tables)
        assert_consistent(tables)
        items = read_items(tables, TABLE)
        assert replay(read_stream(tables, TABLE)) == items
        check_writes(0, begun, done, {}, items)


def check_writes(
    first: int, begun: Counter[str], done: Counter[str], before: dict[str, Items], found: Items
) -> dict[str, Items]:
    """Check that each worker's items are the result of its acknowledged writes and at most one more.

    Return the items by worker.
    """
    after = group_by_worker(found)
    for worker in WORKERS:
        assert begun[worker] - done[worker] in (0, 1)
        count_writes(
            worker, first, begun[worker], done[worker], before.get(worker, {}), after.get(worker, {})
        )
    return after


class WriterRunner:
    """Runs a writer, kills it after so many lines, and returns the counts of its begun and done writes.

    The next writer always starts while the last one is checked: most of its life is spent importing.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.waiting = self._start()

    def __call__(
        self, first: int, lines: int, meanwhile: Callable[[], None] = lambda: None
    ) -> tuple[Counter[str], Counter[str]]:
        process = self.waiting
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.stdin.write(f"{first}\n".encode())
        process.stdin.flush()
        said: list[bytes] = []
        reading = threading.Thread(target=lambda: said.extend(process.stdout or ()))
        reading.start()
        meanwhile()
        while len(said) < lines:
            time.sleep(0.0005)
        process.send_signal(signal.SIGKILL)
        reading.join()
        with process:
            pass
        assert process.returncode == -signal.SIGKILL
        self.waiting = self._start()
        words = [line.decode().split() for line in said]
        begun = Counter(worker for word, worker in words if word == "begun")
        return begun, Counter(worker for word, worker in words if word == "done")

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.faults.tables.engine_writer", str(self._path), *WORKERS]
        return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


@contextmanager
def run_writers(path: Path) -> Iterator[WriterRunner]:
    """Yield a runner of writer processes, and kill the waiting one after the block."""
    start = WriterRunner(path)
    try:
        yield start
    finally:
        start.waiting.kill()
        with start.waiting:
            pass
