"""The background worker of the embedded tables: one thread per process, active in one process at a time.

Every second, and whenever it is woken, it checks for work: unfinished jobs, expired items, log records past
their retention. The check is a read. Only when there is work does it take the lease in the file, and it
releases the lease when nothing is left.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Final

from holdfast.core.clock import SYSTEM_CLOCK, Clock
from holdfast.core.errors import LeaseLost, StoreClosed
from holdfast.core.limits import EXPIRY_BATCH_ITEMS
from holdfast.stores.sqlite import Connection, Database, Lease, Leases
from holdfast.stores.sqlite.leases import require_lease
from holdfast.stores.tables.embedded.jobs import retention, steps
from holdfast.stores.tables.embedded.storage import jobs, rows
from holdfast.stores.tables.embedded.storage.catalog import CatalogCache
from holdfast.stores.tables.embedded.storage.reader import Reader
from holdfast.stores.tables.embedded.storage.writer import Writer

LEASE: Final = "tables: background work"
LEASE_S: Final = 10.0
IDLE_S: Final = 1.0

log = logging.getLogger(__name__)


class Worker:
    """The background worker.

    `start` runs it in a thread; `sweep` does all current work in the caller's thread.
    """

    def __init__(self, database: Database, cache: CatalogCache, clock: Clock) -> None:
        self._database = database
        self._cache = cache
        self._clock = clock
        # Leases use real time, because processes start and die in real time, whatever the engine's clock
        # says.
        self._leases = Leases(database, SYSTEM_CLOCK.now, seconds=LEASE_S)
        self._busy = threading.Lock()
        self._wake = threading.Event()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="holdfast-tables-worker", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wake(self) -> None:
        """Make the worker check for work now."""
        self._wake.set()

    def close(self) -> None:
        """Stop after the current unit of work and wait for the thread."""
        self._closed = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join()

    def sweep(self) -> None:
        """Work until nothing is left. Do nothing while another process holds the lease."""
        with self._busy:
            if not self._has_work():
                return
            lease = self._leases.take(LEASE)
            if lease is None:
                return
            try:
                self._work_until_idle(lease)
            except LeaseLost:
                log.warning("Lost the lease: another process has taken over the background work.")
            finally:
                self._leases.release(lease)

    def _run(self) -> None:
        """Sweep every second, or when woken, until closed. Runs in the thread; errors are logged."""
        while not self._closed:
            try:
                self.sweep()
            except StoreClosed:
                return
            except Exception:
                # One failure must not stop the other background work.
                log.exception("Background work failed. It is retried within a second.")
            self._wake.wait(IDLE_S)
            self._wake.clear()

    def _work_until_idle(self, lease: Lease) -> None:
        """Run rounds until nothing is left, and renew the lease meanwhile."""
        while not self._closed and self._has_work():
            if lease.expires_at - SYSTEM_CLOCK.now() < LEASE_S / 2:
                lease = self._leases.renew(lease)
            self._run_round(lease)

    def _has_work(self) -> bool:
        """Return whether there is an unfinished job, an expired item or something past its retention."""
        with self._database.snapshot() as connection:
            if jobs.list_pending(connection):
                return True
            reader = Reader(connection, self._cache, self._clock, self._database)
            now = reader.now
            return retention.is_due(connection, reader.catalog, now) or any(
                rows.find_expired(connection, table.number, int(now), 1)
                for table in reader.catalog.tables.values()
                if table.lifetime_attribute is not None
            )

    def _run_round(self, lease: Lease) -> None:
        """Run one bounded step of each piece of work, then raise the first error among them."""
        with self._database.snapshot() as connection:
            pending = [id for id, _ in jobs.list_pending(connection)]
            tables = Reader(connection, self._cache, self._clock, self._database).catalog.tables
            expiring = [table.name for table in tables.values() if table.lifetime_attribute is not None]
        failures = [self._try(lease, partial(_step, id)) for id in pending]
        failures += [self._try(lease, partial(_expire, name)) for name in expiring]
        failures.append(self._try(lease, retention.trim))
        for failure in failures:
            if failure is not None:
                raise failure

    def _try(self, lease: Lease, work: Callable[[Writer], None]) -> Exception | None:
        """Run one unit and return its error, so that a failure does not delay the other units.

        The caller raises the error after all units had their turn. `LeaseLost` and `StoreClosed` are raised
        at once.
        """
        try:
            self._run_unit(lease, work)
        except (LeaseLost, StoreClosed):
            raise
        except Exception as failure:
            return failure
        return None

    def _run_unit(self, lease: Lease, work: Callable[[Writer], None]) -> None:
        """Run the work as one unit under the lease. Do nothing if the worker is closed."""
        if self._closed:
            return

        def unit(connection: Connection) -> None:
            require_lease(connection, lease)
            writer = Writer(connection, self._database.batch(), self._cache, self._clock.now())
            try:
                work(writer)
            finally:
                writer.invalidate_catalog()
            writer.finish()

        self._database.write(unit)


def _step(id: int, writer: Writer) -> None:
    """Run one step of the job with this id and store the job that remains, or remove it when it is done."""
    job = jobs.find(writer.connection, id)
    if job is None:
        return
    left = steps.run_step(job, writer)
    if left is None:
        jobs.remove(writer.connection, id)
    else:
        jobs.save(writer.connection, id, left)


def _expire(name: str, writer: Writer) -> None:
    """Remove some expired items of the table, if it still exists and has a lifetime attribute."""
    table = writer.catalog.tables.get(name)
    if table is not None and table.lifetime_attribute is not None:
        steps.expire(table, EXPIRY_BATCH_ITEMS, writer)
