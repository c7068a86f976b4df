"""A process that begins background work on a tables file and kills itself in the middle of it.

    python -m tests.faults.tables.engine_job_process FILE MOMENT STEP WORK

WORK is one of `BEGINNINGS`. At the STEP-th step of it the process kills itself: "inside", when the step has
written its rows but nothing is committed, or "between", when the step before is on the disk and the next has
not begun. Steps are small here, and the lease short, so that the next process need not wait for it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any, Final

from holdfast.operations.tables import (
    BackupName,
    CreateBackup,
    CreateIndex,
    DeleteIndex,
    DeleteTable,
    IndexDefinition,
    IndexProjection,
    KeyAttribute,
    KeySchema,
    ListBackups,
    Operation,
    RestoreTableFromBackup,
    RestoreTableToPointInTime,
    UpdateTable,
    UpdateTimeToLive,
)
from holdfast.stores.tables.embedded import EmbeddedTables, open_tables
from holdfast.stores.tables.embedded.jobs import steps, worker

from .engine_work import TABLE

BATCH: Final = 7
LEASE_S: Final = 0.2

NEW_INDEX: Final = IndexDefinition("new", KeySchema("g", "n"), IndexProjection("INCLUDE", ("h",)))


def _restore_from_backup(tables: EmbeddedTables) -> Operation[Any]:
    """Return the request that restores the only backup into the table `restored`."""
    [backup] = tables.run_blocking(ListBackups()).backups
    return RestoreTableFromBackup(BackupName(backup.table, backup.id), "restored")


BEGINNINGS: Final[dict[str, Callable[[EmbeddedTables], Operation[Any]]]] = {
    "backfill": lambda tables: UpdateTable(
        TABLE, (KeyAttribute("g", "S"), KeyAttribute("n", "N")), index_changes=(CreateIndex(NEW_INDEX),)
    ),
    "drop of an index": lambda tables: UpdateTable(TABLE, index_changes=(DeleteIndex("part"),)),
    "backup": lambda tables: CreateBackup(TABLE, "a backup"),
    "restore from a backup": _restore_from_backup,
    "restore to a moment": lambda tables: RestoreTableToPointInTime(TABLE, "restored"),
    "lifetimes": lambda tables: UpdateTimeToLive(TABLE, "n", True),
    "expiry": lambda tables: UpdateTimeToLive(TABLE, "n", True),
    "drop of a table": lambda tables: DeleteTable(TABLE),
}


def main(path: str, moment: str, step: str, work: str) -> None:
    _make_steps_small()
    _kill_at(moment, int(step), "_expire" if work == "expiry" else "_step")
    tables = open_tables(path)
    tables.run_blocking(BEGINNINGS[work](tables))
    threading.Event().wait()  # the worker does the rest, and kills this process


def _make_steps_small() -> None:
    """Make background jobs proceed in batches of seven, under a short lease."""
    for module, name, value in (
        (steps, "BACKFILL_BATCH_ITEMS", BATCH),
        (steps, "TRIM_BATCH_RECORDS", BATCH),
        (worker, "EXPIRY_BATCH_ITEMS", BATCH),
        (worker, "LEASE_S", LEASE_S),
    ):
        assert hasattr(module, name)
        setattr(module, name, value)


def _kill_at(moment: str, step: int, name: str) -> None:
    """Make the worker's function `name` kill the process at its `step`-th call, before it or after it."""
    original = getattr(worker, name)
    left = step

    def counted(*arguments: Any) -> None:
        nonlocal left
        left -= 1
        if not left and moment == "between":
            os.kill(os.getpid(), signal.SIGKILL)
        original(*arguments)
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

    setattr(worker, name, counted)


if __name__ == "__main__":
    main(*sys.argv[1:])
