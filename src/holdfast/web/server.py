"""The HTTP server of an app. `serve` runs until a signal; `serve_in_thread` in a thread of this process.

Both run the app's lifespan around the server, so that an error there is raised and not only logged. The
connections are those of `core/http/connection.py`; here they refuse in the app's error format.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import socket
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from typing import Any, Final

from holdfast.core.distribution import explain_missing
from holdfast.core.gc_freeze import freeze_gc
from holdfast.core.http.hosts import HostPolicy, Refusal, parse_authority
from holdfast.web.problems import build_error_response

with explain_missing(__name__, "api"):
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.requests import HTTPConnection

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

# The limit of Amazon API Gateway; a larger message closes its connection with 1009.
MAX_WEBSOCKET_BYTES: Final = 128 * 1024
# Bodies have the limits of their routes; uploads of files may take minutes.
BOUNDS: Final = ConnectionBounds(body_timeout_s=600.0)
REMOTE_NEEDS: Final = "Configure a token"
# uvicorn logs this for every WebSocket that is refused with a response, although that is no error.
_HANDSHAKE_MESSAGE: Final = "ASGI callable returned without completing handshake."


def _is_not_handshake_message(record: logging.LogRecord) -> bool:
    """Return whether to log a record of uvicorn: False for its message about a refused WebSocket."""
    return record.msg != _HANDSHAKE_MESSAGE


logging.getLogger("uvicorn.error").addFilter(_is_not_handshake_message)


def serve(
    app: Starlette,
    *,
    host: str,
    port: int,
    on_ready: Callable[[str], None],
    on_stopping: Callable[[], Awaitable[None]] | None = None,
    remote_needs: str = REMOTE_NEEDS,
    allowed_hosts: Collection[str] = (),
    allowed_origins: Collection[str] = (),
    shares_port: bool = False,
) -> None:
    """Serve until a signal. `on_ready` gets the URL, with the real port if `port` is 0.

    With `shares_port`, other processes may serve the same port.

    `on_stopping` is called before the server waits for open requests: the place to end streams.

    Other machines may connect only if `remote_needs` is empty, because the app knows its callers; otherwise
    it says what is missing for that. The server answers only for names that are its own
    (`core/http/hosts.py`), and for `allowed_hosts`; pages of other origins than its own and `allowed_origins`
    may not change anything or open a WebSocket.
    """
    with listen(host, port, remote_needs=remote_needs, shares_port=shares_port) as sockets:

        def report_start() -> None:
            freeze_gc()
            on_ready(format_url(sockets, host))

        hosts = _build_host_policy(sockets, host, allowed_hosts, allowed_origins)
        _Server(app, hosts, on_started=report_start, on_stopping=on_stopping).run(sockets)


@contextlib.contextmanager
def serve_in_thread(
    app: Starlette,
    *,
    host: str = LOOPBACK,
    port: int = 0,
    allowed_hosts: Collection[str] = (),
    allowed_origins: Collection[str] = (),
    bounds: ConnectionBounds = BOUNDS,
    on_stopping: Callable[[], Awaitable[None]] | None = None,
) -> Iterator[str]:
    """Serve the app in a thread of this process and yield its URL once it accepts requests.

    `on_stopping` is called before the server waits for open requests, as in `serve`.
    """
    with listen(host, port, remote_needs=REMOTE_NEEDS) as sockets:
        hosts = _build_host_policy(sockets, host, allowed_hosts, allowed_origins)

        def build_server(on_started: Callable[[], None]) -> Server:
            return _Server(app, hosts, bounds, on_started=on_started, on_stopping=on_stopping)

        with run_in_thread(build_server, sockets):
            yield format_url(sockets, host)


def _build_host_policy(
    sockets: list[socket.socket], host: str, allowed_hosts: Collection[str], allowed_origins: Collection[str]
) -> HostPolicy:
    """Return for whom the server answers; also for the name that it listens on."""
    own = parse_authority(host)
    names = [*allowed_hosts, *([] if own is None else [own.name])]
    return HostPolicy(is_local=are_local(sockets), allowed_hosts=names, allowed_origins=allowed_origins)


class _Server(Server):
    """The server with the app's lifespan around it."""

    def __init__(
        self,
        app: Starlette,
        hosts: HostPolicy,
        bounds: ConnectionBounds = BOUNDS,
        *,
        on_started: Callable[[], None],
        on_stopping: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        super().__init__(_build_config(app, hosts, bounds), on_started=on_started)
        self._app, self._on_stopping = app, on_stopping

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve inside the app's lifespan, so that an error there is raised."""
        async with self._app.router.lifespan_context(self._app) as state:
            # The lifespan's result becomes the state of each request.
            self._state: Mapping[str, Any] = state or {}
            await super().serve(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self.lifespan.state.update(self._state)
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams, then shut down as every server."""
        if self._on_stopping is not None:
            await self._on_stopping()
        await super().shutdown(sockets)


class _Connection(Connection):
    """A connection of an API."""

    def render_refusal(self, refusal: Refusal) -> RenderedRefusal:
        """Return the error in the app's format."""
        call = HTTPConnection({"type": "http", "path": "", "headers": [], "app": self.config.app})
        answer = build_error_response(call, HTTPException(refusal.status, refusal.message))
        return RenderedRefusal(
            [header for header in answer.raw_headers if header[0] != b"content-length"], bytes(answer.body)
        )


def _build_config(app: Starlette, hosts: HostPolicy, bounds: ConnectionBounds) -> ConnectionConfig:
    """Return uvicorn's configuration: HTTP/1.1, and WebSockets if installed."""
    return ConnectionConfig(
        app,
        _Connection,
        bounds,
        hosts,
        # Without the package there are no WebSockets: a request for one is answered as any other.
        ws="websockets-sansio" if importlib.util.find_spec("websockets") else "none",
        ws_max_size=MAX_WEBSOCKET_BYTES,
        # A compressed message may expand to any size, and ours are small.
        ws_per_message_deflate=False,
    )
