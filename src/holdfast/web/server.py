"""The HTTP server of an app: listen, serve, and shut down in good order.

`serve` runs until a signal; `serve_in_thread` is the same server in a thread of this process. Both bind the
address themselves, so that a port in use gives a clear error, and both run the app's lifespan around the
server, so that an error there is raised and not only logged.
"""

from __future__ import annotations

import contextlib
import importlib.util
import ipaddress
import logging
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any, Final

from holdfast.config.settings import MAX_PORT
from holdfast.core import limits
from holdfast.core.distribution import explain_missing
from holdfast.core.errors import SettingsError
from holdfast.runtime.gc_freeze import freeze_gc

with explain_missing(__name__, "api"):
    import uvicorn
    from starlette.applications import Starlette

LOOPBACK: Final = "127.0.0.1"
# Below the 1,024 descriptors that a process may usually open.
MAX_CONNECTIONS: Final = 800
# The limit of Amazon API Gateway; a larger message closes its connection with 1009.
MAX_WEBSOCKET_BYTES: Final = 128 * 1024
_BACKLOG: Final = 1024
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
    with _listen(host, port, may_be_remote=may_be_remote) as listening:
        url = _build_url(listening, host)

        def started() -> None:
            freeze_gc()
            on_ready(url)

        _Server(app, on_started=started).run([listening])


@contextlib.contextmanager
def serve_in_thread(app: Starlette, *, host: str = LOOPBACK, port: int = 0) -> Iterator[str]:
    """Serve the app in a thread of this process and yield its URL once it accepts requests."""
    with _listen(host, port, may_be_remote=False) as listening, _run_in_thread(app, listening):
        yield _build_url(listening, host)


# --- the listening socket -----------------------------------------------------------------------------------


def _listen(host: str, port: int, *, may_be_remote: bool) -> socket.socket:
    """Return a listening socket. Raise `SettingsError` if that fails, or if other machines could connect and
    `may_be_remote` is False.
    """
    family, address = _resolve_address(host, port)
    if not may_be_remote and not ipaddress.ip_address(address[0].partition("%")[0]).is_loopback:
        raise SettingsError(
            f"Other machines can reach {host}, and without a token any of them could use the API: "
            f"configure a token, or listen on {LOOPBACK}."
        )
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(_BACKLOG)
    except OSError as error:
        made.close()
        raise SettingsError(
            f"Cannot listen on port {port} of {host}: {error.strerror}. Stop what listens there, or choose "
            "another port (0 takes a free one)."
        ) from error
    return made


def _resolve_address(host: str, port: int) -> tuple[int, tuple[Any, ...]]:
    """Return the family and address of a host, IPv4 if it has one. Raise `SettingsError` if it has none."""
    if not 0 <= port <= MAX_PORT:
        raise SettingsError(f"Invalid port {port}: expected 0 (any free port) to {MAX_PORT}.")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise SettingsError(
            f"Invalid host {host!r}: expected {LOOPBACK}, or the address of an interface of this machine."
        ) from error
    family, _, _, _, address = min(found, key=lambda entry: entry[0] != socket.AF_INET)
    return family, address


def _build_url(listening: socket.socket, host: str) -> str:
    port = listening.getsockname()[1]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


# --- the server ---------------------------------------------------------------------------------------------


class _Server(uvicorn.Server):
    """Shuts down gracefully at the first signal and at once at the second, and never exits by the signal."""

    def __init__(self, app: Starlette, *, on_started: Callable[[], None]) -> None:
        super().__init__(_build_config(app))
        self._app = app
        self._on_started = on_started
        self._state: Mapping[str, Any] = {}

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve inside the app's lifespan, so that an error there is raised."""
        async with self._app.router.lifespan_context(self._app) as state:
            self._state = state or {}
            await super().serve(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        # The lifespan's result becomes the state of each request.
        """Start listening and call `on_started`; shut down again if that raises."""
        self.lifespan.state.update(self._state)
        await super().startup(sockets)
        try:
            self._on_started()
        except BaseException:
            # The loop cannot be closed while a server still listens.
            await self.shutdown(sockets)
            raise

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # uvicorn would raise the signal again after the shutdown, which would look like a crash.
        """Finish accepted requests on the first signal; stop at once on the second."""
        self.force_exit = self.should_exit
        self.should_exit = True


def _build_config(app: Starlette) -> uvicorn.Config:
    """Return uvicorn's configuration: HTTP/1.1, WebSockets if installed, no access log, bounded connections
    and timeouts.
    """
    return uvicorn.Config(
        app,
        loop="auto",  # uvloop if it is installed, which has no wheel for Windows
        http="httptools",
        # Without the package there are no WebSockets: a request for one is answered as any other.
        ws="websockets-sansio" if importlib.util.find_spec("websockets") else "none",
        ws_max_size=MAX_WEBSOCKET_BYTES,
        # A compressed message may expand to any size, and ours are small.
        ws_per_message_deflate=False,
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=_BACKLOG,
        limit_concurrency=MAX_CONNECTIONS,
        timeout_keep_alive=int(limits.KEEP_ALIVE_TIMEOUT_S),
        timeout_graceful_shutdown=int(limits.SHUTDOWN_GRACE_S),
    )


@contextlib.contextmanager
def _run_in_thread(app: Starlette, listening: socket.socket) -> Iterator[None]:
    """Run the server in a thread for the length of the context, once it has started. Raise its error if it
    fails.
    """
    failures: list[BaseException] = []
    is_decided = threading.Event()
    server = _Server(app, on_started=is_decided.set)

    def run() -> None:
        try:
            server.run([listening])
        except BaseException as error:
            failures.append(error)
        finally:
            is_decided.set()

    thread = threading.Thread(target=run, name="holdfast-api", daemon=True)
    thread.start()
    try:
        is_decided.wait()
        if not failures:
            yield
    finally:
        server.should_exit = True
        thread.join()
    if failures:
        raise failures[0]
