"""From an app to an address that answers, and back down in good order.

`serve` runs until a signal ends it; `serving` is the same server in a thread of this process. Both bind the
address themselves, so that a port in use is told in our words, and both run the app's lifespan around the
server, so that what fails there is raised here and not only logged.
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

import uvicorn
from starlette.applications import Starlette

from holdfast import limits
from holdfast.errors import SettingsError
from holdfast.runtime.settling import settle
from holdfast.settings import PORT_MAX

LOOPBACK: Final = "127.0.0.1"
# Below the 1,024 descriptors that a process may usually open.
CONNECTIONS_MAX: Final = 800
# As large as Amazon API Gateway takes one; a larger one ends its connection with 1009.
WEBSOCKET_BYTES_MAX: Final = 128 * 1024
_BACKLOG: Final = 1024
# What uvicorn says of every WebSocket that is refused with an answer of its own, though nothing is wrong with that.
_SAID_OF_REFUSALS: Final = "ASGI callable returned without completing handshake."


def _is_news(record: logging.LogRecord) -> bool:
    return record.msg != _SAID_OF_REFUSALS


logging.getLogger("uvicorn.error").addFilter(_is_news)


def serve(
    app: Starlette,
    *,
    host: str,
    port: int,
    on_ready: Callable[[str], None],
    may_be_remote: bool = False,
) -> None:
    """Answer until a signal. `on_ready` is told the URL, which has the real port where `port` is 0.

    Other machines are let in only where `may_be_remote` says that a token guards the app.
    """
    with _listening(host, port, may_be_remote=may_be_remote) as listening:
        url = _url(listening, host)

        def started() -> None:
            settle()
            on_ready(url)

        _Server(app, on_started=started).run([listening])


@contextlib.contextmanager
def serving(app: Starlette, *, host: str = LOOPBACK, port: int = 0) -> Iterator[str]:
    """The app in a thread of this process; its URL, once it answers."""
    with _listening(host, port, may_be_remote=False) as listening, _in_thread(app, listening):
        yield _url(listening, host)


# --- where it listens ---------------------------------------------------------------------------------------


def _listening(host: str, port: int, *, may_be_remote: bool) -> socket.socket:
    family, address = _address(host, port)
    if not may_be_remote and not ipaddress.ip_address(address[0].partition("%")[0]).is_loopback:
        raise SettingsError(
            f"{host} can be reached from other machines, and without a token anyone there could use the API: "
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
            f"Cannot listen on port {port} of {host}: {error.strerror}. Stop what listens there, or choose another "
            "port (0 takes a free one)."
        ) from error
    return made


def _address(host: str, port: int) -> tuple[int, tuple[Any, ...]]:
    if not 0 <= port <= PORT_MAX:
        raise SettingsError(f"There is no port {port}: choose one from 0 (any free one) to {PORT_MAX}.")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise SettingsError(
            f"{host!r} is not an address this machine knows: use {LOOPBACK}, or the address of an interface."
        ) from error
    family, _, _, _, address = min(found, key=lambda entry: entry[0] != socket.AF_INET)
    return family, address


def _url(listening: socket.socket, host: str) -> str:
    port = listening.getsockname()[1]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


# --- the server's life --------------------------------------------------------------------------------------


class _Server(uvicorn.Server):
    """Ends with the first signal after what it accepted, at once with the second, and never by the signal."""

    def __init__(self, app: Starlette, *, on_started: Callable[[], None]) -> None:
        super().__init__(_config(app))
        self._app = app
        self._on_started = on_started
        self._state: Mapping[str, Any] = {}

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        async with self._app.router.lifespan_context(self._app) as state:
            self._state = state or {}
            await super().serve(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        # What the lifespan yielded: each request finds it as its state.
        self.lifespan.state.update(self._state)
        await super().startup(sockets)
        try:
            self._on_started()
        except BaseException:
            # The loop could not be closed with a server that still listens.
            await self.shutdown(sockets)
            raise

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # uvicorn would raise the signal again once all is closed, and a tidy end would look like a crash.
        self.force_exit = self.should_exit
        self.should_exit = True


def _config(app: Starlette) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        loop="uvloop",
        http="httptools",
        # Without the package there are no WebSockets: a request for one is answered as any other.
        ws="websockets-sansio" if importlib.util.find_spec("websockets") else "none",
        ws_max_size=WEBSOCKET_BYTES_MAX,
        # What is compressed may be far larger than it says, and what we send is small.
        ws_per_message_deflate=False,
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=_BACKLOG,
        limit_concurrency=CONNECTIONS_MAX,
        timeout_keep_alive=int(limits.KEEP_ALIVE_TIMEOUT_S),
        timeout_graceful_shutdown=int(limits.SHUTDOWN_GRACE_S),
    )


@contextlib.contextmanager
def _in_thread(app: Starlette, listening: socket.socket) -> Iterator[None]:
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
