"""Benchmark: reads, writes and pages per second in a table of 1,000,000 items, compared with 10,000.

It also measures the memory of the process. The floor of these figures is the small table: the ratio says how
much of the small table's rate is left at a hundred times the items. Each size runs in its own process, so
that memory is that of one size.
"""

from __future__ import annotations

import itertools
import json
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.harness.measurement import Figure, measure_rate
from benchmarks.stores import items
from benchmarks.stores.batch_import import BATCH, load_items
from holdfast.operations.expressions.key_conditions import KeyTest
from holdfast.operations.tables import BatchWriteItem, GetItem, Put, Query
from holdfast.stores.tables.embedded import EmbeddedTables, open_tables

SMALL, LARGE = 10_000, 1_000_000
MAX_GROWTH = 1.5
MAX_MEMORY_MIB = 300
ROUNDS = 5
STEP = 7919
# Each round starts at another item, so that it does not find the items of the last round in memory.
_STARTS = itertools.count(1, 104_729)


def run(folder: Path) -> list[Figure]:
    """Measure both sizes and return a figure for reads, puts, pages and memory."""
    small, large = _measure(folder / "small.db", SMALL), _measure(folder / "large.db", LARGE)
    figures = [
        Figure(
            f"{what}, 100 x items",
            large[what],
            small[what],
            large[what] / small[what],
            large[what] / small[what],
            large[what] / small[what],
            1 / MAX_GROWTH,
        )
        for what in ("keyed read", "batch of 25 puts", "page of 50")
    ]
    memory = large["memory MiB"]
    headroom = MAX_MEMORY_MIB / memory
    figures.append(
        Figure("MiB of memory, 100 x items", memory, MAX_MEMORY_MIB, headroom, headroom, headroom, 1.0)
    )
    return figures


def _measure(path: Path, count: int) -> dict[str, float]:
    """Fill a table with this many items in a child process and return its rates and memory by name."""
    command = [sys.executable, "-m", "benchmarks.stores.table_scale", str(path), str(count)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)  # type: ignore[no-any-return]


def _measure_reads(tables: EmbeddedTables, count: int) -> float:
    """Return keyed reads per second, of items all over the table."""
    numbers = itertools.count(next(_STARTS), STEP)

    def read() -> object:
        item = items.build_item(next(numbers) % count)
        return tables.run_blocking(GetItem(items.TABLE, {"pk": item["pk"], "sk": item["sk"]})).item

    return measure_rate(read, 5_000)


def _measure_puts(tables: EmbeddedTables, count: int) -> float:
    """Measure batches that replace items all over the table, each in one transaction."""
    numbers = itertools.count(next(_STARTS), STEP)

    def put() -> None:
        writes = {number % count: None for number in itertools.islice(numbers, BATCH)}
        tables.run_blocking(BatchWriteItem(tuple(Put(items.TABLE, items.build_item(n)) for n in writes)))

    return measure_rate(put, 200)


def _measure_pages(tables: EmbeddedTables, count: int) -> float:
    """Return queries of a whole partition per second, all over the table."""
    numbers = itertools.count(next(_STARTS), STEP)

    def page() -> object:
        partition = items.build_item(next(numbers) % count)["pk"]
        return tables.run_blocking(Query(items.TABLE, (KeyTest("pk", "=", (partition,)),))).items

    return measure_rate(page, 500)


def _take_best(measure: Callable[[], float]) -> float:
    """Return the best of several rounds, which has the least noise of the machine."""
    return max(measure() for _ in range(ROUNDS))


def main() -> None:
    """Fill a table and print its rates and the memory of this process as JSON."""
    path, count = Path(sys.argv[1]), int(sys.argv[2])
    with open_tables(path) as tables:
        load_items(tables, count)
        found = {
            "keyed read": _take_best(lambda: _measure_reads(tables, count)),
            "batch of 25 puts": _take_best(lambda: _measure_puts(tables, count)),
            "page of 50": _take_best(lambda: _measure_pages(tables, count)),
        }
    found["memory MiB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(found))


if __name__ == "__main__":
    main()
