"""Checkpoints: move the write-ahead log into the file after a commit is acknowledged.

SQLite would checkpoint inside COMMIT, where submitters and other processes wait. Instead the committer calls
`run_if_due` between transactions, and `truncate_log` when it has been idle for a moment.

After a checkpoint the log still holds the old pages, with rows that were deleted since. `truncate_log`
removes them. Deleted data is therefore in no file a moment after the last write, or after `log_s_max` if
writes never pause.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import perf_counter

import apsw

from holdfast.core.errors import StoreBusy
from holdfast.stores.sqlite.connections import Tuning
from holdfast.stores.sqlite.store_files import StoreFiles
from holdfast.stores.sqlite.write_lock import WriteLock

# Overlapping readers keep the log from restarting. Past this multiple of its usual size, make readers wait.
OVERGROWN_LOG_FACTOR = 8
BLOCK_READERS_MS = 50

log = logging.getLogger(__name__)


class Checkpoints:
    """The checkpoints of one file, run by its committer."""

    def __init__(
        self,
        connection: apsw.Connection,
        write_lock: WriteLock,
        files: StoreFiles,
        *,
        path: str,
        tuning: Tuning,
    ) -> None:
        self._connection, self._write_lock, self._files, self._path = connection, write_lock, files, path
        self._interval_pages, self._busy_ms = tuning.checkpoint_pages, tuning.busy_ms_max
        self._log_pages, self._due_at_pages = 0, tuning.checkpoint_pages
        # Set by each commit that writes to the log: the frames in the log after it.
        self.committed_frames = 0
        self._quiet_s, self._log_s_max = tuning.log_quiet_s, tuning.log_s_max
        # A killed process may have left a log.
        self._log_filled_since: float | None = perf_counter()
        connection.set_wal_hook(self._record_log_pages)

    @property
    def quiet_s(self) -> float | None:
        """Return how many seconds to wait for a write before calling `truncate_log`; None while the log is
        empty.
        """
        return None if self._log_filled_since is None else self._quiet_s

    def truncate_log(self) -> None:
        """Checkpoint and truncate the log.

        If readers or another writer block it, the next quiet period retries.
        """
        self._attempt(self._checkpoint_and_truncate)

    def run_if_due(self) -> None:
        """Checkpoint if the log is too long, or truncate it if it was not empty for too long."""
        if self._log_filled_since is not None and perf_counter() - self._log_filled_since > self._log_s_max:
            self._log_filled_since = perf_counter()
            self.truncate_log()
            return
        if self._log_pages < self._due_at_pages:
            return
        # If readers keep the log from restarting, retry only after it has grown by the same amount again.
        self._due_at_pages = self._log_pages + self._interval_pages
        self._attempt(
            self._checkpoint_passively
            if self._log_pages < OVERGROWN_LOG_FACTOR * self._interval_pages
            else self._checkpoint_and_truncate
        )

    def _attempt(self, checkpoint: Callable[[], None]) -> None:
        """Run a checkpoint. Log and ignore its errors: a later commit retries it."""
        try:
            checkpoint()
        except (apsw.BusyError, StoreBusy):
            log.debug("Readers block the checkpoint of %s: it is retried later.", self._path)
        except Exception:
            # Acknowledged writes are safe in the log. A later commit retries the checkpoint.
            self._log_filled_since = None
            log.exception("Checkpoint of %s failed.", self._path)

    def _record_log_pages(self, _connection: apsw.Connection, _schema: str, pages: int) -> int:
        """Remember the log's length in pages. SQLite calls it after every commit."""
        if pages < self._log_pages:
            self._due_at_pages = self._interval_pages
        self._log_pages = self.committed_frames = pages
        self._log_filled_since = self._log_filled_since or perf_counter()
        return apsw.SQLITE_OK

    def _checkpoint_passively(self) -> None:
        """Take the write lock, and move as much of the log as possible without waiting for readers."""
        with self._write_lock:
            self._files.move_log(self._connection)

    def _checkpoint_and_truncate(self) -> None:
        """Take the write lock, move all of the log and truncate it; raise if readers block it for 50 ms."""
        self._connection.set_busy_timeout(BLOCK_READERS_MS)
        try:
            with self._write_lock:
                self._files.truncate_log(self._connection)
            self._log_filled_since = None
        finally:
            self._connection.set_busy_timeout(self._busy_ms)
