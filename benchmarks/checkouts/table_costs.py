"""Measure the processor time of operations on embedded tables, one slice at a time.

`compare.py` runs this module with the interpreter of each checkout. It uses the Holdfast that is installed
there, measures one slice for each line that it reads, and prints the microseconds of processor time of one
operation: of all threads, and of the kernel.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import holdfast
from benchmarks.stores import items
from holdfast.operations.expressions.key_conditions import KeyTest
from holdfast.operations.tables import (
    BatchWriteItem,
    CreateTable,
    GetItem,
    IndexDefinition,
    IndexProjection,
    KeyAttribute,
    KeySchema,
    Operation,
    Put,
    PutItem,
    Query,
    TableDefinition,
)
from holdfast.operations.values import Item
from holdfast.stores.tables.embedded import EmbeddedTables, open_tables

INDEXED_SHARE: Final = 5
BATCH: Final = 25
PUTS_AT_ONCE: Final = 100
AT_ONCE: Final = "100 puts at once"
STEP: Final = 7919  # coprime with the numbers of items: the operations cover all of them
INDEXED: Final = "Indexed"
AFTER_WRITE: Final = ", after a write"
BY_TEXT, BY_NUMBER = "by-text", "by-number"


class Subject:
    """Two loaded tables, with and without indexes, and the operations that are measured on them."""

    def __init__(self, tables: EmbeddedTables, count: int) -> None:
        self._tables = tables
        self._numbers = itertools.cycle(number * STEP % count for number in range(count))
        self._new_numbers = itertools.count(count)
        self._revisions = itertools.count()
        self._load(items.build_definition(), count)
        self._load(_build_indexed_definition(), count // INDEXED_SHARE)
        # From the log into the file, where pages have checksums.
        tables.compact(rewrite=False)
        queries: dict[str, Callable[[], Operation[Any]]] = {
            "query of 50": lambda: self._build_query(items.TABLE, count, None),
            "index query of 50": lambda: self._build_query(INDEXED, count // INDEXED_SHARE, BY_TEXT),
            "index query of 50, number": lambda: self._build_query(
                INDEXED, count // INDEXED_SHARE, BY_NUMBER
            ),
        }
        self._slices: dict[str, tuple[Callable[[], Operation[Any]], int]] = {
            "keyed read": (self._build_read, 1000),
            **{name: (build, 100) for name, build in queries.items()},
            **{name + AFTER_WRITE: (build, 100) for name, build in queries.items()},
            "put of an existing item": (self._build_put, 100),
            "put of a new item": (
                lambda: PutItem(items.TABLE, items.build_item(next(self._new_numbers))),
                100,
            ),
            AT_ONCE: (self._build_put, 500),
        }
        self.names = tuple(self._slices)

    def measure(self, name: str) -> float:
        """Return the microseconds of processor time of one operation, from one slice of many."""
        build, times = self._slices[name]
        operations = [build() for _ in range(times)]
        if name.endswith(AFTER_WRITE):
            # While the log is not empty, every row is compared with its checksum.
            self._tables.run_blocking(self._build_put())
        if name == AT_ONCE:
            return self._measure_at_once(operations)
        gc.collect()
        started = time.process_time_ns()
        for operation in operations:
            self._tables.run_blocking(operation)
        return (time.process_time_ns() - started) / times / 1000

    def _measure_at_once(self, operations: list[Operation[Any]]) -> float:
        with asyncio.Runner() as runner:
            runner.get_loop()
            gc.collect()
            started = time.process_time_ns()
            runner.run(self._run_at_once(operations))
            return (time.process_time_ns() - started) / (len(operations) // PUTS_AT_ONCE) / 1000

    async def _run_at_once(self, operations: list[Operation[Any]]) -> None:
        for start in range(0, len(operations), PUTS_AT_ONCE):
            chunk = operations[start : start + PUTS_AT_ONCE]
            await asyncio.gather(*(self._tables.run(operation) for operation in chunk))

    def _load(self, definition: TableDefinition, count: int) -> None:
        self._tables.run_blocking(CreateTable(definition))
        for start in range(0, count, BATCH):
            puts = tuple(Put(definition.name, items.build_item(start + each)) for each in range(BATCH))
            self._tables.run_blocking(BatchWriteItem(puts))

    def _build_read(self) -> Operation[Any]:
        return GetItem(items.TABLE, _build_key(next(self._numbers)))

    def _build_query(self, table: str, count: int, index: str | None) -> Operation[Any]:
        partition = _build_key(next(self._numbers) % count)["pk"]
        return Query(table, (KeyTest("pk", "=", (partition,)),), index=index)

    def _build_put(self) -> Operation[Any]:
        # With a change: SQLite writes nothing for a row that stays as it is.
        item = items.build_item(next(self._numbers))
        return PutItem(items.TABLE, {**item, "revision": next(self._revisions)})


def _build_key(number: int) -> Item:
    return {"pk": f"customer-{number // items.ITEMS_PER_PARTITION:07d}", "sk": f"order-{number:09d}"}


def _build_indexed_definition() -> TableDefinition:
    """Return the definition of a table with an index that is sorted by a text, and one by a number."""
    return TableDefinition(
        INDEXED,
        (
            KeyAttribute("pk", "S"),
            KeyAttribute("sk", "S"),
            KeyAttribute("status", "S"),
            KeyAttribute("total", "N"),
        ),
        KeySchema("pk", "sk"),
        global_indexes=(
            IndexDefinition(BY_TEXT, KeySchema("pk", "status"), IndexProjection("ALL")),
            IndexDefinition(BY_NUMBER, KeySchema("pk", "total"), IndexProjection("ALL")),
        ),
        billing_mode="PAY_PER_REQUEST",
    )


def main() -> None:
    """Measure a slice of each operation that is named on a line of the input."""
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-costs-") as folder,
        open_tables(Path(folder) / "tables.db") as tables,
    ):
        subject = Subject(tables, int(sys.argv[1]))
        print(Path(holdfast.__file__).resolve().parents[2], *subject.names, sep="\t", flush=True)
        for line in sys.stdin:
            print(subject.measure(line.strip()), flush=True)


if __name__ == "__main__":
    main()
