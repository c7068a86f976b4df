"""A process that opens a data folder of an older version when it is told to, and prints what it finds."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

from holdfast.core.errors import NotFound
from holdfast.operations.queues import Browse, ListQueues
from holdfast.operations.tables import ListTables, Scan
from holdfast.operations.values import Item
from holdfast.stores.queues.embedded import open_queues
from holdfast.stores.tables.embedded import EmbeddedTables, open_tables
from holdfast.stores.tables.embedded.jobs.worker import Worker

NO_KEY: Item | None = None


def main(folder: str) -> None:
    """Wait for a line of input, open the stores, and print how much each table and queue holds."""
    _say("ready")
    sys.stdin.readline()
    _say(json.dumps(count_all(Path(folder))))


def count_all(folder: Path) -> dict[str, int]:
    """Return the number of items of each table, and of messages of each queue."""
    with (
        # What is in progress would continue in the background and change the numbers.
        patch.object(Worker, "start"),
        open_tables(folder / "tables.db") as tables,
        open_queues(folder / "queues.db") as queues,
    ):
        found = {}
        for name in tables.run_blocking(ListTables()).names:
            with suppress(NotFound):  # a table that is still being restored
                found[name] = _count_items(tables, name)
        for name in queues.run_blocking(ListQueues()):
            found[name] = len(queues.run_blocking(Browse(name, 1000)))
        return found


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _count_items(tables: EmbeddedTables, name: str) -> int:
    count, start = 0, NO_KEY
    while True:
        page = tables.run_blocking(Scan(name, start_key=start))
        count += len(page.items or ())
        start = page.last_key
        if start is None:
            return count
