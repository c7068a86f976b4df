"""Notifications (LISTEN and NOTIFY): one connection in its own thread, shared by all waiters.

Notifications sent while the connection is lost are lost too. So after each reconnection every waiter is woken
once, with an empty notification, to look for itself.
"""

from __future__ import annotations

import asyncio
import logging
import re
import select
import socket
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

from psycopg import sql

from holdfast.core.errors import InvalidRequest, StoreClosed
from holdfast.stores.sql.postgres.connections import Connection

_log = logging.getLogger(__name__)

WOKEN: Final = ""
# A waiter with this many unread notifications misses nothing when more are dropped: one is enough to look
# again.
NOTICES_KEPT_MAX: Final = 1000
LISTENING_S_MAX: Final = 10.0
FIRST_PAUSE_S: Final = 0.1
PAUSE_S_MAX: Final = 5.0
CLOSE_S_MAX: Final = 15.0
_CHANNEL: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")


class Notices:
    """One waiter on one channel, in one event loop."""

    def __init__(self, channel: str) -> None:
        self.channel = channel
        self._loop = asyncio.get_running_loop()
        self._heard: deque[str] = deque(maxlen=NOTICES_KEPT_MAX)
        self._something = asyncio.Event()
        self.listening = asyncio.Event()

    async def wait(self, timeout_s: float) -> str | None:
        """Return the payload of the next notification, or None when the time is over."""
        if not self._heard:
            self._something.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._something.wait()
        return self._heard.popleft() if self._heard else None

    def tell(self, payload: str) -> None:
        """Pass a notification from the listener's thread to the waiter's loop. A closed loop is ignored."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._hear, payload)

    def tell_listening(self) -> None:
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.listening.set)

    def _hear(self, payload: str) -> None:
        self._heard.append(payload)
        self._something.set()


class Listener:
    """The connection and its thread, started with the first waiter."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._waiting: dict[str, set[Notices]] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._connection: Connection | None = None
        self._bell: tuple[socket.socket, socket.socket] | None = None

    @asynccontextmanager
    async def notices(self, channel: str) -> AsyncIterator[Notices]:
        if not _CHANNEL.fullmatch(channel):
            raise InvalidRequest(
                f"{channel!r} is no name of a channel: lower-case letters, digits and underscores, 63 at "
                "most."
            )
        notices = Notices(channel)
        self._add(notices)
        try:
            # From here on nothing is missed; if the server is down now, the caller's poll must suffice.
            with suppress(TimeoutError):
                async with asyncio.timeout(LISTENING_S_MAX):
                    await notices.listening.wait()
            yield notices
        finally:
            self._remove(notices)

    def close(self) -> None:
        self._closing.set()
        self._ring()
        with self._lock:
            thread, self._thread = self._thread, None
            connection = self._connection
        if connection is not None:
            connection.break_off()
        if thread is not None:
            # The thread may be connecting to a server that does not respond.
            thread.join(CLOSE_S_MAX)
        with self._lock:
            bell, self._bell = self._bell, None
        for end in bell or ():
            end.close()

    def _add(self, notices: Notices) -> None:
        with self._lock:
            if self._closing.is_set():
                raise StoreClosed("The SQL store was closed.")
            self._waiting.setdefault(notices.channel, set()).add(notices)
            if self._thread is None or not self._thread.is_alive():
                self._bell = self._bell or _bell()
                self._thread = threading.Thread(target=self._listen, name="holdfast-sql-notices", daemon=True)
                self._thread.start()
        self._ring()

    def _remove(self, notices: Notices) -> None:
        """Remove a waiter and keep listening to its channel: others will wait, and an unused notification
        costs little.
        """
        with self._lock:
            self._waiting.get(notices.channel, set()).discard(notices)

    def _ring(self) -> None:
        with self._lock:
            if self._bell is not None:
                with suppress(BlockingIOError):
                    self._bell[0].send(b"\0")

    def _listen(self) -> None:
        pause_s, is_first = FIRST_PAUSE_S, True
        while not self._closing.is_set():
            try:
                with self._connect() as connection:
                    self._connection, pause_s = connection, FIRST_PAUSE_S
                    self._follow(connection, is_first=is_first)
            # Catch every error: if the thread ended, no waiter would be woken again.
            except Exception as error:
                self._connection = None
                if self._closing.is_set():
                    return
                _log.info("The connection that listens was lost: %s", type(error).__name__)
                self._closing.wait(pause_s)
                pause_s = min(2 * pause_s, PAUSE_S_MAX)
            is_first = False

    def _follow(self, connection: Connection, *, is_first: bool) -> None:
        listened: set[str] = set()
        is_new = not is_first
        while not self._closing.is_set():
            self._listen_to_new(connection, listened)
            if is_new:
                self._wake_everybody()
                is_new = False
            # Notifications that came during LISTEN are already read, and would not end a wait.
            for notice in connection.notifies(timeout=0):
                for waiting in self._of(notice.channel):
                    waiting.tell(notice.payload)
            self._wait_for_something(connection)

    def _listen_to_new(self, connection: Connection, listened: set[str]) -> None:
        with self._lock:
            wanted = {channel: set(waiting) for channel, waiting in self._waiting.items()}
        for channel, waiting in wanted.items():
            if channel not in listened:
                connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
                listened.add(channel)
            for each in waiting:
                if not each.listening.is_set():
                    each.tell_listening()

    def _wait_for_something(self, connection: Connection) -> None:
        with self._lock:
            bell = self._bell
        if bell is None:
            return
        # Not `select`, which does not support file descriptors above 1023.
        poller = select.poll()
        for each in (connection.fileno(), bell[1].fileno()):
            poller.register(each, select.POLLIN)
        poller.poll()
        with suppress(BlockingIOError):
            bell[1].recv(4096)

    def _wake_everybody(self) -> None:
        with self._lock:
            everybody = [each for waiting in self._waiting.values() for each in waiting]
        for each in everybody:
            each.tell(WOKEN)

    def _of(self, channel: str) -> list[Notices]:
        with self._lock:
            return list(self._waiting.get(channel, ()))


def _bell() -> tuple[socket.socket, socket.socket]:
    """Return a socket pair that wakes the thread: a byte sent into one end arrives at the other."""
    ends = socket.socketpair()
    for end in ends:
        end.setblocking(False)
    return ends
