"""An embedded engine in memory whose clock the test moves and whose jobs the test runs step by step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from holdfast.operations.tables import (
    IndexDefinition,
    IndexProjection,
    KeyAttribute,
    KeySchema,
    TableDefinition,
)
from holdfast.stores.sqlite import Connection
from holdfast.stores.tables.embedded import EmbeddedTables, open_tables
from holdfast.stores.tables.embedded.jobs import steps, worker
from holdfast.stores.tables.embedded.storage import jobs
from holdfast.stores.tables.embedded.storage.writer import Writer

START = 1_000_000_000.0
# As in the engine, rows are dropped faster than they are copied.
BATCH = 3
DROPPED_AT_ONCE = 7

BY_G = IndexDefinition("by_g", KeySchema("g", "n"), IndexProjection("ALL"))
BY_N = IndexDefinition("by_n", KeySchema("n"), IndexProjection("INCLUDE", ("a",)))


class FakeClock:
    """A clock that moves only by hand."""

    def __init__(self) -> None:
        self.moment = START

    def now(self) -> float:
        return self.moment


class SteppedEngine:
    """An engine whose worker is idle. `step` advances every pending job by one small step."""

    def __init__(self, tables: EmbeddedTables, clock: FakeClock) -> None:
        self.tables, self.clock = tables, clock
        self.run = tables.run_blocking

    def pending(self) -> int:
        """Return the number of unfinished jobs."""
        with self.tables.database.snapshot() as connection:
            return len(jobs.list_pending(connection))

    def step(self) -> None:
        """Run one step of every unfinished job."""
        with self.tables.database.snapshot() as connection:
            ids = [id for id, _ in jobs.list_pending(connection)]
        for id in ids:
            self._take(id)

    def finish(self) -> None:
        """Run steps until no job is left."""
        while self.pending():
            self.step()

    def expire(self, table: str) -> None:
        """Run one small step of removing expired items."""

        def unit(connection: Connection) -> None:
            writer = self._writer(connection)
            worker._expire(table, writer)
            writer.finish()

        self.tables.database.write(unit)

    def _take(self, id: int) -> None:
        """Run one step of the job with this id as a unit of work."""

        def unit(connection: Connection) -> None:
            writer = self._writer(connection)
            try:
                worker._step(id, writer)
            finally:
                writer.invalidate_catalog()
            writer.finish()

        self.tables.database.write(unit)

    def _writer(self, connection: Connection) -> Writer:
        return Writer(connection, self.tables.database.batch(), self.tables._cache, self.clock.now())


@contextmanager
def open_stepped_engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[SteppedEngine]:
    """Open the engine with small batches and without its worker's thread."""
    monkeypatch.setattr(steps, "BACKFILL_BATCH_ITEMS", BATCH)
    monkeypatch.setattr(steps, "TRIM_BATCH_RECORDS", DROPPED_AT_ONCE)
    monkeypatch.setattr(worker, "EXPIRY_BATCH_ITEMS", BATCH)
    monkeypatch.setattr(worker.Worker, "start", lambda self: None)
    clock = FakeClock()
    with open_tables(clock=clock) as tables:
        yield SteppedEngine(tables, clock)


def definition(*indexes: IndexDefinition, name: str = "tab") -> TableDefinition:
    """Return a table definition with the key `pk` and these global indexes."""
    attributes = {"pk": KeyAttribute("pk", "S")}
    for index in indexes:
        for key in index.keys.names:
            attributes[key] = KeyAttribute(key, "S" if key == "g" else "N")
    return TableDefinition(
        name,
        tuple(attributes.values()),
        KeySchema("pk"),
        global_indexes=indexes,
        billing_mode="PAY_PER_REQUEST",
    )
