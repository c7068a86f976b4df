"""The server of DynamoDB's protocol: open an engine on a data folder, and serve it within bounds.

`serve` is the command `holdfast serve`; `start_server` is the same server in a thread of this process, for
tests. `Connection` adds the bounds that uvicorn lacks: on heads and bodies that never finish, responses that
are never read, and too many clients at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from holdfast.core import limits
from holdfast.core.distribution import explain_missing
from holdfast.core.errors import SettingsError
from holdfast.core.gc_freeze import freeze_gc
from holdfast.core.readiness import DEFAULT_TIMEOUT_S
from holdfast.stores.tables.port import Tables
from holdfast.wire.http.app import WHOLE_RESPONSE, App, Receive, Scope, Send, create_request_id

with explain_missing(__name__, "serve"):
    import uvicorn
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

    from holdfast.core.http.server import (
        LOOPBACK,
        MAX_CONNECTIONS,
        UVICORN_OPTIONS,
        Server,
        format_url,
        listen,
        run_in_thread,
    )

if TYPE_CHECKING:
    from holdfast.stores.tables.embedded import EngineFaults

Application: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

DATA_FILE: Final = "tables.db"
_REMOTE_NEEDS: Final = (
    "Set HOLDFAST_ACCESS_KEY_ID and HOLDFAST_SECRET_ACCESS_KEY (or name a credentials file)"
)


class Bounds(msgspec.Struct, frozen=True):
    """The resources that one client may use. Tests make them small."""

    head_timeout_s: float = limits.REQUEST_HEAD_TIMEOUT_S
    body_timeout_s: float = limits.REQUEST_BODY_TIMEOUT_S
    # How long a response may wait for a client that does not read.
    write_timeout_s: float = limits.REQUEST_BODY_TIMEOUT_S
    keep_alive_s: float = limits.KEEP_ALIVE_TIMEOUT_S
    grace_s: float = limits.SHUTDOWN_GRACE_S
    max_body_bytes: int = limits.MAX_REQUEST_BODY_BYTES
    # For all clients together.
    max_total_body_bytes: int = limits.MAX_REQUEST_BODIES_BYTES
    # SDKs send about 1 KiB; presigned requests with a session token send a few KiB.
    max_head_bytes: int = 64 * limits.KIB
    max_headers: int = 200
    max_connections: int = MAX_CONNECTIONS


def serve(
    *,
    host: str,
    port: int,
    data: Path | None,
    memory: bool,
    credentials: Mapping[str, str] | None,
    faults: EngineFaults | None = None,
    health_timeout_s: float = DEFAULT_TIMEOUT_S,
) -> None:
    """Listen until a signal arrives; print one line with the address when ready. Raise `SettingsError` for an
    unusable setting.

    `data` is the folder of the tables, `memory` keeps them in memory instead. Without `credentials` only a
    loopback address is allowed. `faults` makes a share of the operations fail as DynamoDB does under load.
    """
    path = _resolve_data_file(data, memory=memory)
    with (
        listen(host, port, remote_needs="" if credentials else _REMOTE_NEEDS) as sockets,
        _open_store(path, faults) as tables,
    ):
        where = "in memory, gone when it stops" if path is None else f"data in {path}"
        line = f"Holdfast answers DynamoDB at {format_url(sockets, host)} ({where})\n"
        bounds = Bounds()
        app = _build_app(tables, credentials, bounds, health_timeout_s)

        def report_start() -> None:
            freeze_gc()
            sys.stdout.write(line)
            sys.stdout.flush()

        Server(_Config(app, bounds), on_started=report_start).run(sockets)


@contextlib.contextmanager
def start_server(
    *,
    memory: bool = True,
    data: Path | None = None,
    credentials: Mapping[str, str] | None = None,
    tables: Tables | None = None,
    bounds: Bounds | None = None,
) -> Iterator[str]:
    """Start the server in a thread of this process, on a free port; yield its URL, and stop it at the end. A
    given `tables` stays open.
    """
    bounds = bounds or Bounds()
    with contextlib.ExitStack() as stack:
        if tables is None:
            path = _resolve_data_file(data, memory=memory and data is None)
            tables = stack.enter_context(_open_store(path))
        yield stack.enter_context(start_app_server(_build_app(tables, credentials, bounds), bounds))


@contextlib.contextmanager
def start_app_server(app: Application, bounds: Bounds) -> Iterator[str]:
    """Start any ASGI app on this server in a thread of this process; yield its URL, and stop it at the end.
    The benchmark's floor uses it without the DynamoDB app.
    """
    config = _Config(app, bounds)
    with (
        listen(LOOPBACK, 0, remote_needs="") as sockets,
        run_in_thread(lambda on_started: Server(config, on_started=on_started), sockets),
    ):
        yield format_url(sockets, LOOPBACK)


# --- the store ----------------------------------------------------------------------------------------------


def _resolve_data_file(data: Path | None, *, memory: bool) -> Path | None:
    """Return the tables file in the data folder, or None for memory. Raise `SettingsError` for an unusable
    folder.
    """
    if memory:
        return None
    if data is None:
        raise SettingsError(
            "Missing data folder: pass --data DIR, or --memory for tables that end with the process."
        )
    if not data.is_dir():
        what = "is not a folder" if data.exists() else "does not exist"
        raise SettingsError(
            f"Invalid data folder {data}: it {what}. Create it (mkdir -p {data}) or pass another with --data."
        )
    if not os.access(data, os.W_OK | os.X_OK):
        raise SettingsError(
            f"Invalid data folder {data}: it is not writable. Change its permissions or pass another with "
            "--data."
        )
    return data / DATA_FILE


@contextlib.contextmanager
def _open_store(path: Path | None, faults: EngineFaults | None = None) -> Iterator[Tables]:
    # Imported when needed: the app can serve any store, and the embedded one is only the default.
    """Open the embedded tables on a file, or in memory if `path` is None; close them at the end."""
    from holdfast.stores.tables.embedded import open_tables

    tables = open_tables(path, faults=faults)
    try:
        yield tables
    finally:
        tables.close()


def _build_app(
    tables: Tables,
    credentials: Mapping[str, str] | None,
    bounds: Bounds,
    health_timeout_s: float = DEFAULT_TIMEOUT_S,
) -> App:
    return App(
        tables,
        credentials=credentials,
        max_body_bytes=bounds.max_body_bytes,
        max_total_body_bytes=bounds.max_total_body_bytes,
        health_timeout_s=health_timeout_s,
    )


# --- the uvicorn server -------------------------------------------------------------------------------------


class _Config(uvicorn.Config):
    """uvicorn's configuration for this server: HTTP/1.1 only, no access log, timeouts from `bounds`."""

    def __init__(self, app: Application, bounds: Bounds) -> None:
        super().__init__(app, http=Connection, ws="none", **UVICORN_OPTIONS)
        self.bounds = bounds
        self._header_cache: tuple[list[tuple[bytes, bytes]], bytes] = ([], b"")
        # uvicorn declares whole seconds but uses the value as a float everywhere.
        self.timeout_keep_alive = bounds.keep_alive_s  # type: ignore[assignment]
        self.timeout_graceful_shutdown = bounds.grace_s  # type: ignore[assignment]

    def format_headers(self, headers: list[tuple[bytes, bytes]]) -> bytes:
        """Return the server's own headers (the date) as bytes. uvicorn rebuilds them once a second."""
        if headers is not self._header_cache[0]:
            self._header_cache = (headers, b"".join(b"%s: %s\r\n" % header for header in headers))
        return self._header_cache[1]


# --- one connection -----------------------------------------------------------------------------------------

_HEAD: Final = "head"
_BODY: Final = "body"


class Connection(HttpToolsProtocol):
    """uvicorn's HTTP/1.1 connection, with a time or size limit on everything a client can start.

    `_expected_part` is what the client still has to send: a head, a body, or nothing. A timer runs only while
    a client sends something in several pieces, so the usual request costs none.
    """

    config: _Config
    _expected_part: str | None = _HEAD
    _has_request = False
    _head_bytes = 0
    _timer: asyncio.TimerHandle | None = None
    _write_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the timer for the first request, or refuse the connection if there are too many."""
        super().connection_made(transport)
        self.headers = []
        if len(self.connections) > self.config.bounds.max_connections:
            self._refuse(503, "ServiceUnavailable", "Too many connections.")
        else:
            self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timers of the connection."""
        self._stop_timer()
        self._cancel_write_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Pass bytes to the parser; refuse a head that is too large, and time what is still incomplete."""
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._expected_part is None:
            # Bytes that start no request (blank lines) must not keep an idle connection open forever.
            if not self._is_responding() and self.timeout_keep_alive_task is None:
                self._start_timer()
            return
        if self._expected_part is _HEAD:
            self._head_bytes += len(data)
        if self._head_bytes > self.config.bounds.max_head_bytes or self._has_too_many_headers():
            self._refuse(431, "RequestHeaderFieldsTooLargeException", "Request headers are too large.")
        else:
            self._start_timer()

    # --- parser callbacks -----------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Note that the head of a request has begun."""
        super().on_message_begin()
        self._expected_part = _HEAD

    def on_headers_complete(self) -> None:
        """Start a request, or refuse one that asks for a protocol upgrade."""
        self._stop_timer()
        if self.parser.should_upgrade():
            # The parser accepts no body after such a head, so there is no request to answer.
            self._refuse(
                400, "SerializationException", "This server speaks only HTTP/1.1 and upgrades no connection."
            )
            return
        super().on_headers_complete()
        # Bound to this request: the next one may have been read before this one is answered.
        self.scope[WHOLE_RESPONSE] = partial(self._send_whole_response, self.cycle)  # type: ignore[typeddict-unknown-key]
        self._has_request = True
        self._expected_part = _BODY
        self._head_bytes = 0

    def on_message_complete(self) -> None:
        """Note that the whole request has arrived."""
        self._stop_timer()
        self._expected_part = None
        if not self.transport.is_closing():
            super().on_message_complete()

    def on_response_complete(self) -> None:
        """Resume reading; keep no idle timer if the next request has already begun."""
        super().on_response_complete()
        if self._timer is not None:
            # The next request has begun: the connection is not idle and has its own timer.
            self._unset_keepalive_if_required()

    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that are not HTTP. A response in progress is finished first."""
        if self._is_responding() and self._expected_part is not _BODY:
            # The request before the invalid bytes still gets its response; then the connection closes.
            self.cycle.keep_alive = False
            self.flow.pause_reading()
        else:
            self._refuse(400, "SerializationException", msg)

    def _unsupported_upgrade_warning(self) -> None:
        """Do nothing: such a request was already rejected."""

    # --- whole responses ------------------------------------------------------------------------------------

    def _send_whole_response(
        self, cycle: RequestResponseCycle, status: int, headers: bytes, body: bytes
    ) -> bool:
        """Send a whole response and end the cycle, which uvicorn would do with two messages and two writes.

        Return False if the response would have to wait for the client or is not of the plain kind.
        """
        if cycle.disconnected or cycle.response_started or not cycle.keep_alive or self.flow.write_paused:
            return False
        cycle.response_started = cycle.response_complete = True
        cycle.waiting_for_100_continue = False
        server_headers = self.config.format_headers(cycle.default_headers)
        self.transport.write(
            b"HTTP/1.1 %d %s\r\n%s%s\r\n%s" % (status, _REASON_PHRASES[status], server_headers, headers, body)
        )
        cycle.message_event.set()
        cycle.on_response()
        return True

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
            self._refuse(408, "RequestTimeoutException", "The request did not arrive in time.")
        else:
            self.transport.close()

    def _cancel_write_timer(self) -> None:
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    # --- invalid requests -----------------------------------------------------------------------------------

    def _is_responding(self) -> bool:
        """Return whether a request has not been answered completely yet."""
        return self._has_request and not self.cycle.response_complete

    def _has_too_many_headers(self) -> bool:
        # Checked in the body too, because a chunked request may send trailers.
        return len(self.headers) > self.config.bounds.max_headers

    def _refuse(self, status: int, code: str, message: str) -> None:
        """Send an error response and close the connection; the app sees a disconnect."""
        body = msgspec.json.encode({"__type": f"com.amazon.coral.service#{code}", "message": message})
        self.transport.write(
            b"HTTP/1.1 %d %s\r\nx-amzn-requestid: %s\r\ncontent-type: application/x-amz-json-1.0\r\n"
            b"content-length: %d\r\nconnection: close\r\n\r\n%s"
            % (status, _REASON_PHRASES[status], create_request_id(), len(body), body)
        )
        self._stop_timer()
        if self._is_responding():
            # The app waits for a body that will not arrive, so report a disconnect to it.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self.transport.close()


_REASON_PHRASES: Final = {
    200: b"OK",
    400: b"Bad Request",
    408: b"Request Timeout",
    431: b"Request Header Fields Too Large",
    503: b"Service Unavailable",
}
