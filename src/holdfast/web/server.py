"""The HTTP server of an app. `serve` runs until a signal; `serve_in_thread` in a thread of this process.

Both run the app's lifespan around the server, so that an error there is raised and not only logged.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import socket
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from holdfast.core import limits
from holdfast.core.distribution import explain_missing
from holdfast.core.gc_freeze import freeze_gc

with explain_missing(__name__, "api"):
    import uvicorn
    from starlette.applications import Starlette

    from holdfast.core.http.server import (
        LOOPBACK,
        MAX_CONNECTIONS,
        UVICORN_OPTIONS,
        Server,
        format_url,
        listen,
        run_in_thread,
    )

# The limit of Amazon API Gateway; a larger message closes its connection with 1009.
MAX_WEBSOCKET_BYTES: Final = 128 * 1024
_REMOTE_NEEDS: Final = "Configure a token"
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
    may_be_remote: bool = False,
) -> None:
    """Serve until a signal. `on_ready` gets the URL, with the real port if `port` is 0.

    Other machines may connect only if `may_be_remote` says that a token guards the app.
    """
    with listen(host, port, remote_needs="" if may_be_remote else _REMOTE_NEEDS) as sockets:

        def report_start() -> None:
            freeze_gc()
            on_ready(format_url(sockets, host))

        _Server(app, on_started=report_start).run(sockets)


@contextlib.contextmanager
def serve_in_thread(app: Starlette, *, host: str = LOOPBACK, port: int = 0) -> Iterator[str]:
    """Serve the app in a thread of this process and yield its URL once it accepts requests."""
    with (
        listen(host, port, remote_needs=_REMOTE_NEEDS) as sockets,
        run_in_thread(lambda on_started: _Server(app, on_started=on_started), sockets),
    ):
        yield format_url(sockets, host)


class _Server(Server):
    """The server with the app's lifespan around it."""

    def __init__(self, app: Starlette, *, on_started: Callable[[], None]) -> None:
        super().__init__(_build_config(app), on_started=on_started)
        self._app = app

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve inside the app's lifespan, so that an error there is raised."""
        async with self._app.router.lifespan_context(self._app) as state:
            # The lifespan's result becomes the state of each request.
            self._state: Mapping[str, Any] = state or {}
            await super().serve(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self.lifespan.state.update(self._state)
        await super().startup(sockets)


def _build_config(app: Starlette) -> uvicorn.Config:
    """Return uvicorn's configuration: HTTP/1.1, WebSockets if installed, no access log, bounded connections
    and timeouts.
    """
    return uvicorn.Config(
        app,
        http="httptools",
        # Without the package there are no WebSockets: a request for one is answered as any other.
        ws="websockets-sansio" if importlib.util.find_spec("websockets") else "none",
        ws_max_size=MAX_WEBSOCKET_BYTES,
        # A compressed message may expand to any size, and ours are small.
        ws_per_message_deflate=False,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=int(limits.KEEP_ALIVE_TIMEOUT_S),
        timeout_graceful_shutdown=int(limits.SHUTDOWN_GRACE_S),
        **UVICORN_OPTIONS,
    )
