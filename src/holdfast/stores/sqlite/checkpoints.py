"""When the write-ahead log goes back into the file: after a commit is acknowledged and outside the turn.

SQLite would do it inside COMMIT, where submitters and other processes wait. The committer calls `run_if_due`
between transactions instead.
"""

from __future__ import annotations

import logging

import apsw

from holdfast.stores.sqlite.connections import Tuning
from holdfast.stores.sqlite.turn import Turn

# A log this many times over its size is held open by readers that overlap without a pause: make one.
OVERGROWN = 8
READERS_WAIT_MS = 50

log = logging.getLogger(__name__)


class Checkpoints:
    def __init__(self, connection: apsw.Connection, turn: Turn, *, path: str, tuning: Tuning) -> None:
        self._connection, self._turn, self._path = connection, turn, path
        self._every, self._busy_ms = tuning.checkpoint_pages, tuning.busy_ms_max
        self._pages, self._due_at = 0, tuning.checkpoint_pages
        connection.set_wal_hook(self._note_pages)

    def run_if_due(self) -> None:
        if self._pages < self._due_at:
            return
        # If readers keep the log from starting over, it is tried again only when it has grown by as much.
        self._due_at = self._pages + self._every
        try:
            if self._pages < OVERGROWN * self._every:
                self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
            else:
                self._make_readers_wait()
        except apsw.BusyError:
            log.debug("the checkpoint of %s waits for readers", self._path)
        except Exception:
            # What was acknowledged is safe in the log. A later commit tries again.
            log.exception("the checkpoint of %s failed", self._path)

    def _note_pages(self, _connection: apsw.Connection, _schema: str, pages: int) -> int:
        if pages < self._pages:
            self._due_at = self._every
        self._pages = pages
        return apsw.SQLITE_OK

    def _make_readers_wait(self) -> None:
        self._connection.set_busy_timeout(READERS_WAIT_MS)
        try:
            with self._turn:
                self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        finally:
            self._connection.set_busy_timeout(self._busy_ms)
