"""The HTTP server process: listen on an address, have uvicorn serve an app, and shut down in good order.

`holdfast.wire.http.server` and `holdfast.web.server` build on it. They bind the address themselves, so that a
port in use gives a clear error.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, Final

import uvicorn

from holdfast.core.errors import SettingsError
from holdfast.core.http.addresses import is_loopback
from holdfast.core.limits import MAX_PORT

log = logging.getLogger(__name__)

LOOPBACK: Final = "127.0.0.1"
# Below 1,024, the usual limit of open file descriptors per process.
MAX_CONNECTIONS: Final = 800
_BACKLOG: Final = 1024
# uvicorn keeps its connections in a set, which nothing can wait for.
_CLOSE_POLL_S: Final = 0.01
_NO_ADDRESS_ERRORS: Final = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)

UVICORN_OPTIONS: Final[dict[str, Any]] = {
    "loop": "auto",  # uvloop if it is installed, which has no wheel for Windows
    "lifespan": "off",
    "interface": "asgi3",
    "log_config": None,
    "access_log": False,
    "proxy_headers": False,
    "server_header": False,
    "backlog": _BACKLOG,
}
"""The arguments of `uvicorn.Config` that all our servers share."""


# --- sockets ------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def listen(
    host: str, port: int, *, remote_needs: str, shares_port: bool = False, accepts: bool = True
) -> Iterator[list[socket.socket]]:
    """Yield sockets that listen on every address of the host name, on one port; close them at the end.

    With `shares_port`, other processes of the same user may listen on the port too, and the kernel spreads
    the connections. Without `accepts`, the sockets only reserve the port. `remote_needs` says what the user
    must do before other machines may connect; it is empty if that is done.

    Raise `SettingsError` if an address cannot be used, or other machines can reach it and may not connect.
    """
    addresses = _resolve_addresses(host, port)
    if remote_needs and not all(is_loopback(address[0]) for _, address in addresses):
        raise SettingsError(
            f"{host} can be reached from other machines, and any client there could use this server. "
            f"{remote_needs}, or listen on {LOOPBACK}."
        )
    with contextlib.ExitStack() as stack:
        sockets: list[socket.socket] = []
        for family, address in addresses:
            chosen = sockets[0].getsockname()[1] if sockets else port
            try:
                bound = _bind_socket(
                    family,
                    (address[0], chosen, *address[2:]),
                    shares_port=shares_port,
                    accepts=accepts,
                )
            except OSError as error:
                # A machine may resolve a name to an IPv6 address without supporting IPv6.
                if sockets and error.errno in _NO_ADDRESS_ERRORS:
                    continue
                raise _build_listen_error(host, port, error) from error
            sockets.append(stack.enter_context(bound))
        yield sockets


def are_local(sockets: list[socket.socket]) -> bool:
    """Return whether only this machine can reach the listening sockets."""
    return all(is_loopback(each.getsockname()[0]) for each in sockets)


def format_url(sockets: list[socket.socket], host: str) -> str:
    """Return the URL of the listening sockets under this host name."""
    port = sockets[0].getsockname()[1]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _resolve_addresses(host: str, port: int) -> list[tuple[int, tuple[Any, ...]]]:
    """Return the (family, address) pairs of a host name, IPv4 first. Raise `SettingsError` if there are
    none.
    """
    if not 0 <= port <= MAX_PORT:
        raise SettingsError(f"Invalid port {port}: expected 1 to {MAX_PORT}, or 0 for any free port.")
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise SettingsError(
            f"Invalid host {host!r}: it does not resolve to an address. Use {LOOPBACK}, or the address of an "
            "interface."
        ) from error
    # IPv4 first, because the printed address is that of the first socket.
    unique = dict.fromkeys((int(family), address) for family, _, _, _, address in found)
    return sorted(unique, key=lambda entry: entry[0] != socket.AF_INET)


def _bind_socket(family: int, address: tuple[Any, ...], *, shares_port: bool, accepts: bool) -> socket.socket:
    """Return a socket that listens on the address; IPv6 sockets accept IPv6 only."""
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shares_port:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(address)
        if accepts:
            listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


def _build_listen_error(host: str, port: int, error: OSError) -> SettingsError:
    """Return an error that explains a failed bind and says how to fix it."""
    if error.errno == errno.EADDRINUSE:
        return SettingsError(
            f"Port {port} on {host} is in use. Stop the process that listens there, or choose another port "
            "(0 picks a free one)."
        )
    if error.errno == errno.EACCES:
        return SettingsError(
            f"Port {port} requires privileges that this user does not have. Choose a port above 1023."
        )
    return SettingsError(
        f"Cannot listen on {host}: {error.strerror}. Use {LOOPBACK}, or an address of this machine."
    )


# --- the server ---------------------------------------------------------------------------------------------


class Server(uvicorn.Server):
    """A uvicorn server that finishes accepted requests on the first signal, stops at once on the second, and
    never dies of the signal itself.

    It waits for the signal instead of looking for it ten times a second, and closes as soon as the last
    connection has.
    """

    def __init__(self, config: uvicorn.Config, *, on_started: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_started = on_started
        self._loop: asyncio.AbstractEventLoop | None = None
        self._exit_requested = asyncio.Event()

    def request_exit(self) -> None:
        """Have the server finish accepted requests and return; any thread and any signal handler may call
        it.
        """
        self.should_exit = True
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the server has returned
                self._loop.call_soon_threadsafe(self._exit_requested.set)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start listening and call `on_started`; shut down again if that raises."""
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        try:
            self._on_started()
        except BaseException:
            # The loop cannot be closed while a server still listens.
            await self.shutdown(sockets)
            raise

    async def main_loop(self) -> None:
        """Serve until an exit is requested; every second, let uvicorn set the time in its headers."""
        tick = 0
        while not await self.on_tick(tick):
            tick += 10  # uvicorn counts tenths of a second
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1):
                    await self._exit_requested.wait()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more connections, let the open ones finish, and cancel what exceeds the grace time."""
        # asyncio drops a connection that it has accepted if its server is closed before the next step of the
        # loop.
        await asyncio.sleep(_CLOSE_POLL_S)
        for listener in (*self.servers, *(sockets or ())):
            listener.close()
        try:
            async with asyncio.timeout(self.config.timeout_graceful_shutdown):
                await self._wait_tasks_to_complete()
        except TimeoutError:
            log.warning("Cancelled %d requests that exceeded the grace time.", len(self.server_state.tasks))
            for task in self.server_state.tasks:
                task.cancel(msg="The grace time of the shutdown is over")

    async def _wait_tasks_to_complete(self) -> None:
        """Close each connection after its request; wait until none is open, or a second signal arrives."""
        asked: set[Any] = set()
        while (self.server_state.connections or self.server_state.tasks) and not self.force_exit:
            for connection in self.server_state.connections - asked:
                asked.add(connection)
                connection.shutdown()
            await asyncio.sleep(_CLOSE_POLL_S)
        for server in self.servers if not self.force_exit else ():
            await server.wait_closed()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # uvicorn would raise the signal again after closing, so a clean shutdown would look like a crash.
        """Finish accepted requests on the first signal; stop at once on the second."""
        self.force_exit = self.should_exit
        self.request_exit()


@contextlib.contextmanager
def run_in_thread(
    build_server: Callable[[Callable[[], None]], Server], sockets: list[socket.socket]
) -> Iterator[None]:
    """Run a server in a thread for the length of the context, once it has started; raise its error if it
    fails.

    `build_server` gets the server's `on_started`.
    """
    failures: list[BaseException] = []
    is_decided = threading.Event()
    server = build_server(is_decided.set)

    def run() -> None:
        try:
            server.run(sockets)
        except BaseException as error:
            failures.append(error)
        finally:
            is_decided.set()

    thread = threading.Thread(target=run, name="holdfast-server", daemon=True)
    thread.start()
    try:
        is_decided.wait()
        if not failures:
            yield
    finally:
        server.request_exit()
        thread.join()
    if failures:
        raise failures[0]
