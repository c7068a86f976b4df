"""Background work is killed at some step: the next process goes on with it, and it ends as if nothing had been."""

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

from .engine_consistency import assert_consistent, items_of, replayed, settled, stream_of
from .engine_job_process import BEGINNINGS
from .engine_work import TABLE, Items, prepare

ROOT = Path(__file__).parents[2]
TIMES = 20 if os.environ.get("HOLDFAST_SOAK") == "1" else 1
ITEMS = 40
STEPS_MAX = 5


def _nothing(tables: EmbeddedTables) -> None:
    pass


def _without_recovery(tables: EmbeddedTables) -> None:
    """Else a deleted table is kept as a backup."""
    tables.run_blocking(UpdateContinuousBackups(TABLE, False))


def _with_backup(tables: EmbeddedTables) -> None:
    tables.run_blocking(CreateBackup(TABLE, "a backup"))
    settled(tables)


# --- how it must end ----------------------------------------------------------------------------------------


def _is_filled(tables: EmbeddedTables, items: Items) -> None:
    assert tables.run_blocking(DescribeTable(TABLE)).global_indexes["new"].status == "ACTIVE"
    assert items_of(tables, TABLE, "new").keys() == {key for key, item in items.items() if "g" in item}


def _index_is_gone(tables: EmbeddedTables, items: Items) -> None:
    assert "part" not in tables.run_blocking(DescribeTable(TABLE)).global_indexes
    assert items_of(tables, TABLE) == items


def _is_backed_up(tables: EmbeddedTables, items: Items) -> None:
    [backup] = tables.run_blocking(ListBackups()).backups
    assert backup.status == "AVAILABLE"
    assert backup.size_bytes == tables.run_blocking(DescribeTable(TABLE)).size_bytes


def _is_restored(tables: EmbeddedTables, items: Items) -> None:
    restored = tables.run_blocking(DescribeTable("restored"))
    assert restored.status == "ACTIVE"
    assert items_of(tables, "restored") == items
    assert items_of(tables, "restored", "whole") == items_of(tables, TABLE, "whole")


def _has_expired(tables: EmbeddedTables, items: Items) -> None:
    assert items_of(tables, TABLE) == {key: item for key, item in items.items() if not _is_over(item["n"])}
    removed = [record for record in stream_of(tables, TABLE) if record.by_service]
    assert sorted(record.keys["pk"] for record in removed) == sorted(
        key for key, item in items.items() if _is_over(item["n"])
    )
    assert replayed(stream_of(tables, TABLE)) == items_of(tables, TABLE)


def _is_over(end: object) -> bool:
    return isinstance(end, int) and SYSTEM_CLOCK.now() - 86400 * 365 < end <= SYSTEM_CLOCK.now()


def _table_is_gone(tables: EmbeddedTables, items: Items) -> None:
    assert tables.run_blocking(ListTables()).names == ()
    with tables.database.reading() as connection:
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
        ("backfill", _nothing, _is_filled),
        ("drop of an index", _nothing, _index_is_gone),
        ("backup", _nothing, _is_backed_up),
        ("restore from a backup", _with_backup, _is_restored),
        ("restore to a moment", _nothing, _is_restored),
        ("lifetimes", _nothing, _has_expired),
        ("expiry", _nothing, _has_expired),
        ("drop of a table", _without_recovery, _table_is_gone),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_work_that_was_killed_is_ended_by_the_next_process(
    tmp_path: Path, work: str, begin: Begin, check: Check, moment: str
) -> None:
    seed = SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # noqa: T201
    random = Random(seed)
    for time in range(TIMES):
        path = tmp_path / f"{time}.db"
        with open_tables(path) as tables:
            items = _filled(tables)
            begin(tables)
        _killed(path, moment, random.randrange(1, STEPS_MAX), work)
        with open_tables(path) as tables:
            assert_consistent(tables)
            settled(tables)
            check(tables, items)
            assert_consistent(tables)


def test_two_processes_that_keep_taking_the_work_from_each_other_end_it_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lease that is over before a step is done: every step may find that another has taken over."""
    monkeypatch.setattr(steps, "BACKFILL_BATCH_ITEMS", 2)
    monkeypatch.setattr(steps, "TRIM_BATCH_RECORDS", 2)
    monkeypatch.setattr(worker, "LEASE_S", 0.0005)
    monkeypatch.setattr(worker.log, "disabled", True)
    path = tmp_path / "tables.db"
    with open_tables(path) as one, open_tables(path) as two:
        items = _filled(one)
        for work in ("backfill", "backup", "restore to a moment", "drop of an index"):
            one.run_blocking(BEGINNINGS[work](one))
            with ThreadPoolExecutor(2) as threads:
                for done in [threads.submit(settled, one), threads.submit(settled, two)]:
                    done.result()
            assert_consistent(two)
        _is_filled(two, items)
        _index_is_gone(two, items)
        _is_backed_up(two, items)
        assert items_of(two, "restored") == items


def _filled(tables: EmbeddedTables) -> Items:
    """Items in a table with a past; some live on, some ended an hour ago."""
    prepare(tables)
    now = int(SYSTEM_CLOCK.now())
    for at in range(ITEMS):
        item = {"pk": f"{at}", "n": now - 3600 if at % 3 else now + 3600, "h": at % 4}
        tables.run_blocking(PutItem(TABLE, item | ({"g": "abc"[at % 3]} if at % 5 else {})))  # type: ignore[arg-type]
    for at in range(0, ITEMS, 7):
        tables.run_blocking(DeleteItem(TABLE, {"pk": f"{at}"}))
    return items_of(tables, TABLE)


def _killed(path: Path, moment: str, step: int, work: str) -> None:
    command = [sys.executable, "-m", "tests.faults.engine_job_process", str(path), moment, str(step), work]
    ended = subprocess.run(command, cwd=ROOT, timeout=60, check=False)
    assert ended.returncode == -signal.SIGKILL
