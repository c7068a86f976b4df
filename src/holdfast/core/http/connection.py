"""One HTTP/1.1 connection of every server: uvicorn's, with limits on everything that a client can start.

`Connection` bounds the size of a head, however it arrives; the time of heads, bodies and unread responses;
and the number of connections. It has `HostPolicy` check each head, also that of a WebSocket. The DynamoDB
endpoint and the APIs derive from it and decide only what a refusal looks like.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec
import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from holdfast.core import limits
from holdfast.core.http.hosts import HostPolicy, Refusal, RequestHead
from holdfast.core.http.server import MAX_CONNECTIONS, UVICORN_OPTIONS

__all__ = [
    "Connection",
    "ConnectionBounds",
    "ConnectionConfig",
    "RenderedRefusal",
]

Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_HEAD: Final = "head"
_BODY: Final = "body"
# Of each header, what separates it from its value and from the next one.
_SEPARATORS_BYTES: Final = 4
_CHECKED_HEADERS: Final = frozenset({b"host", b"origin"})


class ConnectionBounds(msgspec.Struct, frozen=True):
    """The resources that one connection may use. Tests make them small."""

    head_timeout_s: float = limits.REQUEST_HEAD_TIMEOUT_S
    body_timeout_s: float = limits.REQUEST_BODY_TIMEOUT_S
    # How long a response may wait for a client that does not read.
    write_timeout_s: float = limits.REQUEST_BODY_TIMEOUT_S
    keep_alive_s: float = limits.KEEP_ALIVE_TIMEOUT_S
    grace_s: float = limits.SHUTDOWN_GRACE_S
    max_target_bytes: int = limits.MAX_REQUEST_TARGET_BYTES
    max_head_bytes: int = limits.MAX_REQUEST_HEAD_BYTES
    max_headers: int = limits.MAX_REQUEST_HEADERS
    max_connections: int = MAX_CONNECTIONS


class ConnectionConfig(uvicorn.Config):
    """uvicorn's configuration with a class of connections, their bounds, and whom they answer."""

    def __init__(
        self,
        app: Any,
        connection: type[Connection],
        bounds: ConnectionBounds,
        hosts: HostPolicy,
        **options: Any,
    ) -> None:
        super().__init__(app, http=connection, **UVICORN_OPTIONS, **options)
        self.bounds, self.hosts = bounds, hosts
        # uvicorn declares whole seconds but uses the value as a float everywhere.
        self.timeout_keep_alive = bounds.keep_alive_s  # type: ignore[assignment]
        self.timeout_graceful_shutdown = bounds.grace_s  # type: ignore[assignment]


class RenderedRefusal(NamedTuple):
    """The response to a refused request: its headers, without those of its length, and its body."""

    headers: Sequence[tuple[bytes, bytes]]
    body: bytes


class _RefusedError(Exception):
    """The connection was refused in a callback of the parser, which must not continue."""


class Connection(HttpToolsProtocol):
    """A connection with a time or size limit on everything a client can start.

    `_expected_part` is what the client still has to send: a head, a body, or nothing. A timer runs only while
    a client sends something in several pieces, so the usual request costs none.
    """

    config: ConnectionConfig
    _expected_part: str | None = _HEAD
    _has_request = False
    _is_upgraded = False
    # Whether a head or a part of a body was complete in this read.
    _has_progressed = False
    # The bytes of the incomplete head, or of the trailers, before this read; and the bytes of this read.
    _head_bytes = 0
    _read_bytes = 0
    _timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None

    @abstractmethod
    def render_refusal(self, refusal: Refusal) -> RenderedRefusal:
        """Return the response to a refused request in the format of this server."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer for the first request, or refuse the connection if there are too many."""
        super().connection_made(transport)
        self.url, self.headers = b"", []
        if len(self.connections) > self.config.bounds.max_connections:
            self._refuse(_TOO_MANY_CONNECTIONS)
        else:
            self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timers of the connection."""
        self._stop_timer()
        self._cancel_write_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Pass bytes to the parser; refuse a head that is too large, and time what is still incomplete."""
        self._has_progressed, self._read_bytes = False, len(data)
        super().data_received(data)
        if self._is_upgraded or self.transport.is_closing():
            return
        if self._expected_part is None:
            # Bytes that start no request (blank lines) must not keep an idle connection open forever.
            if not self._is_responding() and self.timeout_keep_alive_task is None:
                self._start_timer()
            return
        # A read that completed something else says little about how much of the head has arrived.
        self._head_bytes = 1 if self._has_progressed else self._head_bytes + len(data)
        bounds = self.config.bounds
        if len(self.url) > bounds.max_target_bytes:
            self._refuse(_TARGET_TOO_LONG)
        elif self._head_bytes > bounds.max_head_bytes or len(self.headers) > bounds.max_headers:
            self._refuse(_HEAD_TOO_LARGE)
        else:
            self._start_timer()

    # --- parser callbacks -----------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Note that the head of a request has begun."""
        super().on_message_begin()
        self._expected_part = _HEAD

    def on_headers_complete(self) -> None:
        """Start a request: with the app, or with a refusal if the server does not answer this head."""
        self._stop_timer()
        self._check_size()
        is_websocket = self.parser.should_upgrade() and self._should_upgrade()
        refusal = self._check_host(is_websocket)
        if refusal is not None and is_websocket:
            self._abort(refusal)
        app = self.app
        if refusal is not None:
            self.app = partial(self._answer_refusal, refusal)
        try:
            super().on_headers_complete()
        finally:
            self.app = app
        self._has_progressed = True
        if not is_websocket:
            # Trailers must not become headers of the request: they come after every check.
            self.headers = []
            self._has_request = True
            self._expected_part = _BODY

    def on_body(self, body: bytes) -> None:
        """Pass on a part of the body."""
        self._has_progressed = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that the whole request has arrived."""
        self._stop_timer()
        self._expected_part = None
        self._head_bytes = 0
        if not self.transport.is_closing():
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """Resume reading; keep no idle timer if the next request has already begun."""
        super().on_response_complete()
        if self._timer is not None:
            # The next request has begun: the connection is not idle and has its own timer.
            self._unset_keepalive_if_required()

    def handle_websocket_upgrade(self) -> None:
        """Hand the connection over to the WebSocket protocol, which has its own limits."""
        self._is_upgraded = True
        super().handle_websocket_upgrade()

    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that are not HTTP. A response in progress is finished first."""
        if self.transport.is_closing():
            return
        if self._is_responding() and self._expected_part is not _BODY:
            # The request before the invalid bytes still gets its response; then the connection closes.
            self.cycle.keep_alive = False
            self.flow.pause_reading()
        else:
            self._refuse(Refusal(400, msg))

    # --- heads ----------------------------------------------------------------------------------------------

    def _check_size(self) -> None:
        """Refuse a complete head that is too large: it may have arrived in one read, and then nothing else
        has counted it.
        """
        bounds = self.config.bounds
        if len(self.url) > bounds.max_target_bytes:
            self._abort(_TARGET_TOO_LONG)
        if len(self.headers) > bounds.max_headers:
            self._abort(_HEAD_TOO_LARGE)
        # The usual head is smaller than what was read, so it need not be counted.
        if self._head_bytes + self._read_bytes > bounds.max_head_bytes:
            sizes = (len(name) + len(value) + _SEPARATORS_BYTES for name, value in self.headers)
            if len(self.url) + sum(sizes) > bounds.max_head_bytes:
                self._abort(_HEAD_TOO_LARGE)

    def _check_host(self, is_websocket: bool) -> Refusal | None:
        """Return why the server does not answer this head, or None."""
        checked = [header for header in self.headers if header[0] in _CHECKED_HEADERS]
        if (
            len(checked) == 1
            and checked[0][0] == b"host"
            and self.url.startswith(b"/")
            and self.config.hosts.is_known(checked[0][1])
        ):
            return None
        head = RequestHead(
            self.parser.get_method().decode("latin-1"),
            self.url,
            self.parser.get_http_version(),
            [value for name, value in checked if name == b"host"],
            [value for name, value in checked if name == b"origin"],
            is_websocket,
        )
        return self.config.hosts.check(head)

    async def _answer_refusal(self, refusal: Refusal, scope: object, receive: object, send: Send) -> None:
        """Answer a request in place of the app. The connection stays open, so that a client that is still
        sending a body can read the response.
        """
        headers, body = self.render_refusal(refusal)
        length = (b"content-length", b"%d" % len(body))
        await send({"type": "http.response.start", "status": refusal.status, "headers": [*headers, length]})
        await send({"type": "http.response.body", "body": body, "more_body": False})

    # --- slow clients ---------------------------------------------------------------------------------------

    def pause_writing(self) -> None:
        """Start the timer after which a client that does not read its response is disconnected."""
        super().pause_writing()
        self._cancel_write_timer()
        self._write_timer = self.loop.call_later(self.config.bounds.write_timeout_s, self.transport.abort)

    def resume_writing(self) -> None:
        self._cancel_write_timer()
        super().resume_writing()

    def _start_timer(self) -> None:
        """Start the timeout of the expected head or body, unless one is running."""
        if self._timer is None:
            bounds = self.config.bounds
            timeout_s = bounds.body_timeout_s if self._expected_part is _BODY else bounds.head_timeout_s
            self._timer = self.loop.call_later(timeout_s, self._on_timeout)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timeout(self) -> None:
        """End a slow client: answer 408 to an incomplete request, or close the connection if it is idle or
        already being answered. Wait longer if the server is the slow side.
        """
        self._timer = None
        if self.flow.read_paused or (self._expected_part is not _BODY and self._is_responding()):
            # The server is the slow side: the client cannot continue before it does.
            self._start_timer()
        elif self._expected_part is _BODY and self.cycle.response_started:
            self.transport.abort()
        elif self._expected_part is _BODY or self._head_bytes:
            self._refuse(_TOO_SLOW)
        else:
            self.transport.close()

    def _cancel_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    # --- refusals -------------------------------------------------------------------------------------------

    def _is_responding(self) -> bool:
        """Return whether a request has not been answered completely yet."""
        return self._has_request and not self.cycle.response_complete

    def _abort(self, refusal: Refusal) -> None:
        """Refuse the connection inside a callback of the parser, and stop the parser."""
        self._refuse(refusal)
        raise _RefusedError

    def _refuse(self, refusal: Refusal) -> None:
        """Send an error response and close the connection; the app sees a disconnect."""
        headers, body = self.render_refusal(refusal)
        lines = [b"%s: %s\r\n" % header for header in headers]
        lines.append(b"content-length: %d\r\nconnection: close\r\n\r\n" % len(body))
        self.transport.write(b"".join([STATUS_LINE[refusal.status], *lines, body]))
        self._stop_timer()
        if self._is_responding():
            # The app waits for a body that will not arrive, so report a disconnect to it.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()


_TOO_SLOW: Final = Refusal(408, "The request did not arrive in time.")
_TARGET_TOO_LONG: Final = Refusal(414, "The request target is too long: shorten its path or its query.")
_HEAD_TOO_LARGE: Final = Refusal(431, "Request headers are too large.")
_TOO_MANY_CONNECTIONS: Final = Refusal(503, "Too many connections.")
