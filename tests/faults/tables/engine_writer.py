"""A process that does the writes of `engine_work.py` with several threads until it is killed.

    python -m tests.faults.tables.engine_writer FILE WORKER...

It prints "ready", waits for the number of the first write on its standard input, then writes until it is
killed: "begun WORKER" before each write, "done WORKER" once it is acknowledged.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading

from holdfast.stores.tables.embedded import EmbeddedTables, open_tables

from .engine_work import make_write


def main(path: str, *workers: str) -> None:
    tables = open_tables(path)
    os.write(1, b"ready\n")
    first = int(sys.stdin.readline())
    for worker in workers:
        threading.Thread(target=_work, args=(tables, worker, first)).start()


def _work(tables: EmbeddedTables, worker: str, first: int) -> None:
    """Make the writes of a worker from number `first` on, without end, reporting each."""
    for number in itertools.count(first):
        operation, _ = make_write(worker, number)
        os.write(1, f"begun {worker}\n".encode())
        tables.run_blocking(operation)
        os.write(1, f"done {worker}\n".encode())


if __name__ == "__main__":
    main(*sys.argv[1:])
