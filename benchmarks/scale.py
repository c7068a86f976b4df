"""10,000 items against 1,000,000: what a read, a write and a page cost, and what the process needs of memory.

The floor of these figures is the small table: the ratio says how much of the small table's rate is left at a
hundred times the items. Each size runs in a process of its own, so that memory is that of the size alone.
"""

from __future__ import annotations

import itertools
import json
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks import sample
from benchmarks.batch_import import BATCH, load
from benchmarks.measure import Figure, rate
from holdfast.operations.expressions.key_conditions import KeyTest
from holdfast.operations.tables import BatchWriteItem, GetItem, Put, Query
from holdfast.stores.tables.embedded import EmbeddedTables, open_tables

SMALL, LARGE = 10_000, 1_000_000
GROWTH_MAX = 1.5
MEMORY_MIB_MAX = 300
ROUNDS = 5
STEP = 7919
# Each round begins elsewhere, so that none finds in memory what the one before has read.
_STARTS = itertools.count(1, 104_729)


def run(folder: Path) -> list[Figure]:
    small, large = _measured(folder / "small.db", SMALL), _measured(folder / "large.db", LARGE)
    figures = [
        Figure(
            f"{what}, 100 x items",
            large[what],
            small[what],
            large[what] / small[what],
            large[what] / small[what],
            large[what] / small[what],
            1 / GROWTH_MAX,
        )
        for what in ("keyed read", "batch of 25 puts", "page of 50")
    ]
    memory = large["memory MiB"]
    room = MEMORY_MIB_MAX / memory
    figures.append(Figure("MiB of memory, 100 x items", memory, MEMORY_MIB_MAX, room, room, room, 1.0))
    return figures


def _measured(path: Path, count: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.scale", str(path), str(count)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)  # type: ignore[no-any-return]


def _reads(tables: EmbeddedTables, count: int) -> float:
    numbers = itertools.count(next(_STARTS), STEP)

    def read() -> object:
        item = sample.item(next(numbers) % count)
        return tables.run_blocking(GetItem(sample.TABLE, {"pk": item["pk"], "sk": item["sk"]})).item

    return rate(read, 5_000)


def _puts(tables: EmbeddedTables, count: int) -> float:
    """Items replaced in batches, each a transaction, all over the table."""
    numbers = itertools.count(next(_STARTS), STEP)

    def put() -> None:
        writes = {number % count: None for number in itertools.islice(numbers, BATCH)}
        tables.run_blocking(BatchWriteItem(tuple(Put(sample.TABLE, sample.item(n)) for n in writes)))

    return rate(put, 200)


def _pages(tables: EmbeddedTables, count: int) -> float:
    numbers = itertools.count(next(_STARTS), STEP)

    def page() -> object:
        partition = sample.item(next(numbers) % count)["pk"]
        return tables.run_blocking(Query(sample.TABLE, (KeyTest("pk", "=", (partition,)),))).items

    return rate(page, 500)


def _best(measure: Callable[[], float]) -> float:
    """The best of some rounds: what is left when the noise of the machine is taken away."""
    return max(measure() for _ in range(ROUNDS))


def main() -> None:
    path, count = Path(sys.argv[1]), int(sys.argv[2])
    with open_tables(path) as tables:
        load(tables, count)
        found = {
            "keyed read": _best(lambda: _reads(tables, count)),
            "batch of 25 puts": _best(lambda: _puts(tables, count)),
            "page of 50": _best(lambda: _pages(tables, count)),
        }
    found["memory MiB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(found))


if __name__ == "__main__":
    main()
