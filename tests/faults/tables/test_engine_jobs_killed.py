"""Background jobs of the tables engine are killed at some step: the next process completes them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random, SystemRandom

import pytest

from holdfast.core.clock import SYSTEM_CLOCK
from holdfast.operations.tables import (
    CreateBackup,
    DeleteItem,
    DescribeTable,
    ListBackups,
    ListTables,
    PutItem,
    UpdateContinuousBackups,
)
from holdfast.stores.tables.embedded import EmbeddedTables, open_tables
from holdfast.stores.tables.embedded.jobs import steps, worker

from .engine_consistency import assert_consistent, read_items, read_stream, replay, wait_until_settled
from .engine_job_process import BEGINNINGS
from .engine_work import TABLE, Items, prepare

ROOT = Path(__file__).parents[3]
TIMES = 20 if os.environ.get("HOLDFAST_SOAK") == "1" else 1
ITEMS = 40
MAX_STEPS = 5


def do_nothing(tables: EmbeddedTables) -> None:
    pass


def disable_recovery(tables: EmbeddedTables) -> None:
    """Disable point-in-time recovery: otherwise a deleted table is kept as a backup."""
    tables.run_blocking(UpdateContinuousBackups(TABLE, False))


def create_backup(tables: EmbeddedTables) -> None:
    tables.run_blocking(CreateBackup(TABLE, "a backup"))
    wait_until_settled(tables)


# --- expected results ---------------------------------------------------------------------------------------


def check_index_filled(tables: EmbeddedTables, items: Items) -> None:
    """Check that the new index is active and has every item with its key."""
    assert tables.run_blocking(DescribeTable(TABLE)).global_indexes["new"].status == "ACTIVE"
    assert read_items(tables, TABLE, "new").keys() == {key for key, item in items.items() if "g" in item}


def check_index_gone(tables: EmbeddedTables, items: Items) -> None:
    """Check that the index is gone and the items are unchanged."""
    assert "part" not in tables.run_blocking(DescribeTable(TABLE)).global_indexes
    assert read_items(tables, TABLE) == items


def check_backup(tables: EmbeddedTables, items: Items) -> None:
    """Check that the backup is available and has the size of the table."""
    [backup] = tables.run_blocking(ListBackups()).backups
    assert backup.status == "AVAILABLE"
    assert backup.size_bytes == tables.run_blocking(DescribeTable(TABLE)).size_bytes


def check_restored(tables: EmbeddedTables, items: Items) -> None:
    """Check that the restored table is active and equals the original."""
    restored = tables.run_blocking(DescribeTable("restored"))
    assert restored.status == "ACTIVE"
    assert read_items(tables, "restored") == items
    assert read_items(tables, "restored", "whole") == read_items(tables, TABLE, "whole")


def check_expired(tables: EmbeddedTables, items: Items) -> None:
    """Check that exactly the expired items were removed, by the service, and that the stream says so."""
    assert read_items(tables, TABLE) == {
        key: item for key, item in items.items() if not is_expired(item["n"])
    }
    removed = [record for record in read_stream(tables, TABLE) if record.by_service]
    assert sorted(record.keys["pk"] for record in removed) == sorted(
        key for key, item in items.items() if is_expired(item["n"])
    )
    assert replay(read_stream(tables, TABLE)) == read_items(tables, TABLE)


def is_expired(end: object) -> bool:
    """Return True if the time is past, but not more than a year ago."""
    return isinstance(end, int) and SYSTEM_CLOCK.now() - 86400 * 365 < end <= SYSTEM_CLOCK.now()


def check_table_gone(tables: EmbeddedTables, items: Items) -> None:
    """Check that the table and its rows are gone, except its change log."""
    assert tables.run_blocking(ListTables()).names == ()
    with tables.database.read_connection() as connection:
        left = connection.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name GLOB '*_1*'"
        ).fetchall()
    assert left == [("changes_1",)]  # for as long as the stream can be read


Check = Callable[[EmbeddedTables, Items], None]
Begin = Callable[[EmbeddedTables], None]


@pytest.mark.parametrize("moment", ["inside", "between"])
@pytest.mark.parametrize(
    ("work", "begin", "check"),
    [
        ("backfill", do_nothing, check_index_filled),
        ("drop of an index", do_nothing, check_index_gone),
        ("backup", do_nothing, check_backup),
        ("restore from a backup", create_backup, check_restored),
        ("restore to a moment", do_nothing, check_restored),
        ("lifetimes", do_nothing, check_expired),
        ("expiry", do_nothing, check_expired),
        ("drop of a table", disable_recovery, check_table_gone),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_next_process_completes_killed_work(
    tmp_path: Path, work: str, begin: Begin, check: Check, moment: str
) -> None:
    seed = SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # noqa: T201
    random = Random(seed)
    for time in range(TIMES):
        path = tmp_path / f"{time}.db"
        with open_tables(path) as tables:
            items = fill(tables)
            begin(tables)
        run_until_killed(path, moment, random.randrange(1, MAX_STEPS), work)
        with open_tables(path) as tables:
            assert_consistent(tables)
            wait_until_settled(tables)
            check(tables, items)
            assert_consistent(tables)


def test_two_processes_that_keep_taking_over_complete_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lease is shorter than a step: every step may find that the other has taken over."""
    monkeypatch.setattr(steps, "BACKFILL_BATCH_ITEMS", 2)
    monkeypatch.setattr(steps, "TRIM_BATCH_RECORDS", 2)
    monkeypatch.setattr(worker, "LEASE_S", 0.0005)
    monkeypatch.setattr(worker.log, "disabled", True)
    path = tmp_path / "tables.db"
    with open_tables(path) as one, open_tables(path) as two:
        items = fill(one)
        for work in ("backfill", "backup", "restore to a moment", "drop of an index"):
            one.run_blocking(BEGINNINGS[work](one))
            with ThreadPoolExecutor(2) as threads:
                for done in [
                    threads.submit(wait_until_settled, one),
                    threads.submit(wait_until_settled, two),
                ]:
                    done.result()
            assert_consistent(two)
        check_index_filled(two, items)
        check_index_gone(two, items)
        check_backup(two, items)
        assert read_items(two, "restored") == items


def fill(tables: EmbeddedTables) -> Items:
    """Create the table with live and expired items and some deletes in its history; return the items."""
    prepare(tables)
    now = int(SYSTEM_CLOCK.now())
    for at in range(ITEMS):
        item = {"pk": f"{at}", "n": now - 3600 if at % 3 else now + 3600, "h": at % 4}
        tables.run_blocking(PutItem(TABLE, item | ({"g": "abc"[at % 3]} if at % 5 else {})))  # type: ignore[arg-type]
    for at in range(0, ITEMS, 7):
        tables.run_blocking(DeleteItem(TABLE, {"pk": f"{at}"}))
    return read_items(tables, TABLE)


def run_until_killed(path: Path, moment: str, step: int, work: str) -> None:
    """Run a process that begins the work and kills itself at this step."""
    command = [
        sys.executable,
        "-m",
        "tests.faults.tables.engine_job_process",
        str(path),
        moment,
        str(step),
        work,
    ]
    ended = subprocess.run(command, cwd=ROOT, timeout=60, check=False)
    assert ended.returncode == -signal.SIGKILL
