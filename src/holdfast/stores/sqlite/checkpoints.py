"""Checkpoints: move the write-ahead log into the file after a commit is acknowledged, outside the turn.

SQLite would checkpoint inside COMMIT, where submitters and other processes wait. Instead the committer calls
`run_if_due` between transactions, and `empty` when it has been idle for a moment.

After a checkpoint the log still holds the old pages, with rows that were deleted since. `empty` truncates it.
Deleted data is therefore in no file a moment after the last write, or after `log_s_max` if writes never
pause.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import perf_counter

import apsw

from holdfast.core.errors import StoreBusy
from holdfast.stores.sqlite.connections import Tuning
from holdfast.stores.sqlite.turn import Turn

# Overlapping readers keep the log from restarting. Past this multiple of its size, make readers wait.
OVERGROWN = 8
READERS_WAIT_MS = 50

log = logging.getLogger(__name__)


class Checkpoints:
    def __init__(self, connection: apsw.Connection, turn: Turn, *, path: str, tuning: Tuning) -> None:
        self._connection, self._turn, self._path = connection, turn, path
        self._every, self._busy_ms = tuning.checkpoint_pages, tuning.busy_ms_max
        self._pages, self._due_at = 0, tuning.checkpoint_pages
        self._quiet_s, self._log_s_max = tuning.log_quiet_s, tuning.log_s_max
        # A killed process may have left a log.
        self._holds_since: float | None = perf_counter()
        connection.set_wal_hook(self._note_pages)

    @property
    def quiet_s(self) -> float | None:
        """Return how many seconds to wait for a write before calling `empty`; None while the log is empty."""
        return None if self._holds_since is None else self._quiet_s

    def empty(self) -> None:
        """Checkpoint and truncate the log. If readers or another writer block it, the next quiet period
        retries.
        """
        self._do(self._make_readers_wait)

    def run_if_due(self) -> None:
        if self._holds_since is not None and perf_counter() - self._holds_since > self._log_s_max:
            self._holds_since = perf_counter()
            self.empty()
            return
        if self._pages < self._due_at:
            return
        # If readers keep the log from restarting, retry only after it has grown by the same amount again.
        self._due_at = self._pages + self._every
        self._do(self._passively if self._pages < OVERGROWN * self._every else self._make_readers_wait)

    def _do(self, checkpoint: Callable[[], None]) -> None:
        try:
            checkpoint()
        except (apsw.BusyError, StoreBusy):
            log.debug("the checkpoint of %s waits for readers", self._path)
        except Exception:
            # Acknowledged writes are safe in the log. A later commit retries the checkpoint.
            self._holds_since = None
            log.exception("the checkpoint of %s failed", self._path)

    def _note_pages(self, _connection: apsw.Connection, _schema: str, pages: int) -> int:
        if pages < self._pages:
            self._due_at = self._every
        self._pages = pages
        self._holds_since = self._holds_since or perf_counter()
        return apsw.SQLITE_OK

    def _passively(self) -> None:
        self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)

    def _make_readers_wait(self) -> None:
        self._connection.set_busy_timeout(READERS_WAIT_MS)
        try:
            with self._turn:
                self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            self._holds_since = None
        finally:
            self._connection.set_busy_timeout(self._busy_ms)
