"""The server of DynamoDB's protocol: open an engine on a data folder, and serve it within bounds.

`serve` is the command `holdfast serve`; `start_server` is the same server in a thread of this process, for
tests. The connections are those of `core/http/connection.py`; here they refuse with AWS's errors, take no
upgrade, and send a whole response in one write.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from holdfast.core import limits
from holdfast.core.distribution import explain_missing
from holdfast.core.errors import SettingsError
from holdfast.core.gc_freeze import freeze_gc
from holdfast.core.http.hosts import ANY_HOST, HostPolicy, Refusal
from holdfast.core.readiness import DEFAULT_TIMEOUT_S
from holdfast.stores.tables.port import Tables
from holdfast.wire.http.app import (
    AMZ_JSON,
    WHOLE_RESPONSE,
    App,
    Receive,
    Scope,
    Send,
    create_request_id,
)

with explain_missing(__name__, "serve"):
    from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

    from holdfast.core.http.connection import (
        Connection,
        ConnectionBounds,
        ConnectionConfig,
        RenderedRefusal,
    )
    from holdfast.core.http.server import (
        LOOPBACK,
        Server,
        are_local,
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


# Sent by a client that was configured to find DynamoDB here. Only AWS controls where these names point.
_DYNAMODB_HOSTS: Final = re.compile(r"(streams\.)?dynamodb\.[a-z0-9-]+\.amazonaws\.com(\.cn)?")
_HOST_REMEDY: Final = (
    ", or configure credentials (HOLDFAST_ACCESS_KEY_ID and HOLDFAST_SECRET_ACCESS_KEY, or a credentials "
    "file)"
)


class Bounds(ConnectionBounds, frozen=True):
    """The resources that one client may use. Tests make them small."""

    max_body_bytes: int = limits.MAX_REQUEST_BODY_BYTES
    # For all clients together.
    max_total_body_bytes: int = limits.MAX_REQUEST_BODIES_BYTES


def serve(
    *,
    host: str,
    port: int,
    data: Path | None,
    memory: bool,
    credentials: Mapping[str, str] | None,
    allowed_hosts: Collection[str] = (),
    allowed_origins: Collection[str] = (),
    faults: EngineFaults | None = None,
    health_timeout_s: float = DEFAULT_TIMEOUT_S,
) -> None:
    """Listen until a signal arrives; print one line with the address when ready. Raise `SettingsError` for an
    unusable setting.

    `data` is the folder of the tables, `memory` keeps them in memory instead. Without `credentials` only a
    loopback address is allowed. `allowed_hosts` and `allowed_origins` are names and pages for which the
    server answers too. `faults` makes a share of the operations fail as DynamoDB does under load.
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
        hosts = _build_host_policy(credentials, allowed_hosts, allowed_origins, is_local=are_local(sockets))

        def report_start() -> None:
            freeze_gc()
            sys.stdout.write(line)
            sys.stdout.flush()

        Server(_Config(app, bounds, hosts), on_started=report_start).run(sockets)


@contextlib.contextmanager
def start_server(
    *,
    memory: bool = True,
    data: Path | None = None,
    credentials: Mapping[str, str] | None = None,
    tables: Tables | None = None,
    bounds: Bounds | None = None,
    allowed_hosts: Collection[str] = (),
    allowed_origins: Collection[str] = (),
) -> Iterator[str]:
    """Start the server in a thread of this process, on a free port; yield its URL, and stop it at the end. A
    given `tables` stays open.
    """
    bounds = bounds or Bounds()
    hosts = _build_host_policy(credentials, allowed_hosts, allowed_origins)
    with contextlib.ExitStack() as stack:
        if tables is None:
            path = _resolve_data_file(data, memory=memory and data is None)
            tables = stack.enter_context(_open_store(path))
        yield stack.enter_context(start_app_server(_build_app(tables, credentials, bounds), bounds, hosts))


@contextlib.contextmanager
def start_app_server(app: Application, bounds: Bounds, hosts: HostPolicy | None = None) -> Iterator[str]:
    """Start any ASGI app on this server in a thread of this process; yield its URL, and stop it at the end.
    The benchmark's floor uses it without the DynamoDB app.
    """
    config = _Config(app, bounds, hosts or _build_host_policy(None))
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


def _build_host_policy(
    credentials: Mapping[str, str] | None,
    allowed_hosts: Collection[str] = (),
    allowed_origins: Collection[str] = (),
    *,
    is_local: bool = True,
) -> HostPolicy:
    """Return for whom the endpoint answers.

    With credentials, every request proves that its sender has a secret, which no page has: any name and any
    origin may call, as at DynamoDB.
    """
    if credentials:
        return HostPolicy(is_local=is_local, allowed_hosts=allowed_hosts or (ANY_HOST,), checks_origin=False)
    return HostPolicy(
        is_local=is_local,
        allowed_hosts=allowed_hosts,
        allowed_origins=allowed_origins,
        owned_hosts=_DYNAMODB_HOSTS,
        remedy=_HOST_REMEDY,
    )


# --- connections --------------------------------------------------------------------------------------------


class _Config(ConnectionConfig):
    """The configuration of this server: HTTP/1.1 only."""

    def __init__(self, app: Application, bounds: Bounds, hosts: HostPolicy) -> None:
        super().__init__(app, _Connection, bounds, hosts, ws="none")
        self._header_cache: tuple[list[tuple[bytes, bytes]], bytes] = ([], b"")

    def format_headers(self, headers: list[tuple[bytes, bytes]]) -> bytes:
        """Return the server's own headers (the date) as bytes. uvicorn rebuilds them once a second."""
        if headers is not self._header_cache[0]:
            self._header_cache = (headers, b"".join(b"%s: %s\r\n" % header for header in headers))
        return self._header_cache[1]


class _Connection(Connection):
    """A connection of the endpoint."""

    config: _Config

    def on_headers_complete(self) -> None:
        """Start a request, or refuse one that asks for a protocol upgrade."""
        if self.parser.should_upgrade():
            # The parser accepts no body after such a head, so there is no request to answer.
            self._abort(_NO_UPGRADE)
        super().on_headers_complete()
        # Bound to this request: the next one may have been read before this one is answered.
        self.scope[WHOLE_RESPONSE] = partial(self._send_whole_response, self.cycle)  # type: ignore[typeddict-unknown-key]

    def render_refusal(self, refusal: Refusal) -> RenderedRefusal:
        """Return the error as AWS encodes it."""
        code = f"com.amazon.coral.service#{_ERROR_CODES[refusal.status]}"
        headers = ((b"x-amzn-requestid", create_request_id()), (b"content-type", AMZ_JSON))
        return RenderedRefusal(headers, msgspec.json.encode({"__type": code, "message": refusal.message}))

    def _unsupported_upgrade_warning(self) -> None:
        """Do nothing: such a request was already rejected."""

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
        self.transport.write(b"%s%s%s\r\n%s" % (STATUS_LINE[status], server_headers, headers, body))
        cycle.message_event.set()
        cycle.on_response()
        return True


_NO_UPGRADE: Final = Refusal(400, "This server speaks only HTTP/1.1 and upgrades no connection.")
_ERROR_CODES: Final = {
    400: "SerializationException",
    403: "AccessDeniedException",
    408: "RequestTimeoutException",
    414: "RequestUriTooLongException",
    431: "RequestHeaderFieldsTooLargeException",
    503: "ServiceUnavailable",
}
