"""Notifications (LISTEN): one connection in its own thread, shared by all subscriptions of an engine.

Notifications sent while the connection is lost are lost too. So after each reconnection every subscription
gets one empty notification, and its waiter looks for itself.
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

EMPTY_PAYLOAD: Final = ""
# A waiter with this many unread notifications misses nothing when more are dropped: one is enough to look
# again.
MAX_UNREAD: Final = 1000
MAX_LISTEN_S: Final = 10.0
FIRST_PAUSE_S: Final = 0.1
MAX_PAUSE_S: Final = 5.0
MAX_CLOSE_S: Final = 15.0
_CHANNEL: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")


class Subscription:
    """The notifications of one channel, for one waiter in one event loop."""

    def __init__(self, channel: str) -> None:
        self.channel = channel
        self._loop = asyncio.get_running_loop()
        self._payloads: deque[str] = deque(maxlen=MAX_UNREAD)
        self._has_arrived = asyncio.Event()
        self.listening = asyncio.Event()

    async def wait(self, timeout_s: float) -> str | None:
        """Return the payload of the next notification, or None when the time is over."""
        if not self._payloads:
            self._has_arrived.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(timeout_s):
                    await self._has_arrived.wait()
        return self._payloads.popleft() if self._payloads else None

    def deliver(self, payload: str) -> None:
        """Pass a notification from the listener's thread to the waiter's loop. A closed loop is ignored."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._append, payload)

    def set_listening(self) -> None:
        """Report to the waiter's loop that the server sends this channel's notifications from now on."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.listening.set)

    def _append(self, payload: str) -> None:
        """Add the payload and wake the waiter. Runs in the waiter's event loop."""
        self._payloads.append(payload)
        self._has_arrived.set()


class Listener:
    """The connection and its thread, started with the first subscription."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect
        self._subscriptions: dict[str, set[Subscription]] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._connection: Connection | None = None
        self._wakeup_sockets: tuple[socket.socket, socket.socket] | None = None

    @asynccontextmanager
    async def subscribe(self, channel: str) -> AsyncIterator[Subscription]:
        """Subscribe to a channel for the time of the context. Raise `InvalidRequest` for an invalid name.

        Entering waits until the server listens, at most ten seconds: if it is down, the caller's poll must
        suffice.
        """
        if not _CHANNEL.fullmatch(channel):
            raise InvalidRequest(
                f"Invalid channel name {channel!r}: expected at most 63 lower-case letters, digits and "
                "underscores."
            )
        subscription = Subscription(channel)
        self._add(subscription)
        try:
            # From here on nothing is missed; if the server is down now, the caller's poll must suffice.
            with suppress(TimeoutError):
                async with asyncio.timeout(MAX_LISTEN_S):
                    await subscription.listening.wait()
            yield subscription
        finally:
            self._remove(subscription)

    def close(self) -> None:
        """Stop the thread and close its connection; later subscriptions raise `StoreClosed`."""
        self._closing.set()
        self._wake_thread()
        with self._lock:
            thread, self._thread = self._thread, None
            connection = self._connection
        if connection is not None:
            connection.abort()
        if thread is not None:
            # The thread may be connecting to a server that does not respond.
            thread.join(MAX_CLOSE_S)
        with self._lock:
            sockets, self._wakeup_sockets = self._wakeup_sockets, None
        for each in sockets or ():
            each.close()

    def _add(self, subscription: Subscription) -> None:
        """Add the subscription; start the thread if it does not run, and make it listen to the channel."""
        with self._lock:
            if self._closing.is_set():
                raise StoreClosed("The SQL store was closed.")
            self._subscriptions.setdefault(subscription.channel, set()).add(subscription)
            if self._thread is None or not self._thread.is_alive():
                self._wakeup_sockets = self._wakeup_sockets or _make_wakeup_sockets()
                self._thread = threading.Thread(target=self._listen, name="holdfast-sql-notices", daemon=True)
                self._thread.start()
        self._wake_thread()

    def _remove(self, subscription: Subscription) -> None:
        """Remove a subscription and keep listening to its channel: others will subscribe, and an unused
        notification costs little.
        """
        with self._lock:
            self._subscriptions.get(subscription.channel, set()).discard(subscription)

    def _wake_thread(self) -> None:
        """Wake the thread from its wait for input."""
        with self._lock:
            if self._wakeup_sockets is not None:
                with suppress(BlockingIOError):
                    self._wakeup_sockets[0].send(b"\0")

    def _listen(self) -> None:
        """Connect and deliver notifications until `close`; connect again, after a pause, when the connection
        is lost. Runs in the thread.
        """
        pause_s, is_first = FIRST_PAUSE_S, True
        while not self._closing.is_set():
            try:
                with self._connect() as connection:
                    self._connection, pause_s = connection, FIRST_PAUSE_S
                    self._deliver_from(connection, is_first=is_first)
            # Catch every error: if the thread ended, no waiter would be woken again.
            except Exception as error:
                self._connection = None
                if self._closing.is_set():
                    return
                _log.info(
                    "The connection for notifications was lost and is opened again: %s", type(error).__name__
                )
                self._closing.wait(pause_s)
                pause_s = min(2 * pause_s, MAX_PAUSE_S)
            is_first = False

    def _deliver_from(self, connection: Connection, *, is_first: bool) -> None:
        """Deliver the notifications of this connection until it is lost or the listener is closed."""
        channels: set[str] = set()
        must_wake = not is_first
        while not self._closing.is_set():
            self._listen_to_new(connection, channels)
            if must_wake:
                self._wake_all()
                must_wake = False
            # Notifications that came during LISTEN are already read, and would not end a wait.
            for notification in connection.notifies(timeout=0):
                for subscription in self._list_subscriptions(notification.channel):
                    subscription.deliver(notification.payload)
            self._wait_for_input(connection)

    def _listen_to_new(self, connection: Connection, channels: set[str]) -> None:
        """Listen to channels that are not in `channels` yet, add them, and report to their subscriptions."""
        with self._lock:
            wanted = {channel: set(subscriptions) for channel, subscriptions in self._subscriptions.items()}
        for channel, subscriptions in wanted.items():
            if channel not in channels:
                connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
                channels.add(channel)
            for each in subscriptions:
                if not each.listening.is_set():
                    each.set_listening()

    def _wait_for_input(self, connection: Connection) -> None:
        """Wait until the server sends something or the thread is woken."""
        with self._lock:
            sockets = self._wakeup_sockets
        if sockets is None:
            return
        # Not `select`, which does not support file descriptors above 1023.
        poller = select.poll()
        for each in (connection.fileno(), sockets[1].fileno()):
            poller.register(each, select.POLLIN)
        poller.poll()
        with suppress(BlockingIOError):
            sockets[1].recv(4096)

    def _wake_all(self) -> None:
        """Deliver an empty notification to every subscription."""
        with self._lock:
            everything = [each for subscriptions in self._subscriptions.values() for each in subscriptions]
        for each in everything:
            each.deliver(EMPTY_PAYLOAD)

    def _list_subscriptions(self, channel: str) -> list[Subscription]:
        """Return the current subscriptions to the channel."""
        with self._lock:
            return list(self._subscriptions.get(channel, ()))


def _make_wakeup_sockets() -> tuple[socket.socket, socket.socket]:
    """Return a socket pair that wakes the thread: a byte sent into one end arrives at the other."""
    sockets = socket.socketpair()
    for each in sockets:
        each.setblocking(False)
    return sockets
