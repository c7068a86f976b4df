"""The server process of both HTTP stacks: where it listens, how it starts in a thread, and how it fails."""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import httpx
import pytest
import uvicorn

from holdfast.core.errors import SettingsError
from holdfast.core.http.server import LOOPBACK, UVICORN_OPTIONS, Server, format_url, listen, run_in_thread


async def answer(
    scope: Mapping[str, Any], receive: object, send: Callable[[dict[str, Any]], Awaitable[None]]
) -> None:
    """Answer 204 to every request."""
    await send({"type": "http.response.start", "status": 204})
    await send({"type": "http.response.body"})


def build_server(on_started: Callable[[], None]) -> Server:
    return Server(uvicorn.Config(answer, **UVICORN_OPTIONS), on_started=on_started)


def refusal(host: str = LOOPBACK, port: int = 0, remote_needs: str = "") -> str:
    """Listen on an unusable address and return the message of the one-line `SettingsError`."""
    with pytest.raises(SettingsError) as refused, listen(host, port, remote_needs=remote_needs):
        pytest.fail("it cannot listen")
    assert "\n" not in refused.value.message
    return refused.value.message


def test_port_in_use_error_has_a_remedy() -> None:
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]
        message = refusal(port=port)
    assert message == (
        f"Port {port} on 127.0.0.1 is in use. Stop the process that listens there, or choose another port "
        "(0 picks a free one)."
    )


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_refuses_an_address_that_other_machines_reach(host: str) -> None:
    assert refusal(host, remote_needs="Set a token") == (
        f"{host} can be reached from other machines, and any client there could use this server. Set a "
        "token, or listen on 127.0.0.1."
    )


def test_cannot_listen_on_a_foreign_address() -> None:
    assert refusal("192.0.2.1").startswith("Cannot listen on 192.0.2.1: ")


@pytest.mark.parametrize("host", ["no such host", "999.1.1.1", "a" * 300, "\ud800"])
def test_reports_an_invalid_host(host: str) -> None:
    assert "does not resolve to an address" in refusal(host)


@pytest.mark.parametrize("port", [-1, 65536])
def test_reports_an_invalid_port(port: int) -> None:
    assert refusal(port=port) == f"Invalid port {port}: expected 1 to 65535, or 0 for any free port."


def test_listens_on_every_address_of_a_host_name_with_one_port() -> None:
    addresses = {entry[4][0] for entry in socket.getaddrinfo("localhost", None)}
    with listen("localhost", 0, remote_needs="Set a token") as sockets:
        assert len({each.getsockname()[1] for each in sockets}) == 1
        assert {each.getsockname()[0] for each in sockets} <= addresses
    assert all(each.fileno() == -1 for each in sockets)


def test_url_of_an_ipv6_address_has_brackets() -> None:
    with listen(LOOPBACK, 0, remote_needs="") as sockets:
        port = sockets[0].getsockname()[1]
        assert format_url(sockets, "::1") == f"http://[::1]:{port}"


def test_server_in_a_thread_answers_and_releases_its_port() -> None:
    port = 0
    for _ in range(2):
        with listen(LOOPBACK, port, remote_needs="") as sockets, run_in_thread(build_server, sockets):
            port = sockets[0].getsockname()[1]
            assert httpx.get(format_url(sockets, LOOPBACK)).status_code == 204


def raise_broken_pipe() -> None:
    raise BrokenPipeError


def test_server_ends_and_raises_the_error_of_its_start() -> None:
    with listen(LOOPBACK, 0, remote_needs="") as sockets, pytest.raises(BrokenPipeError):
        build_server(raise_broken_pipe).run(sockets)


def test_server_in_a_thread_raises_the_error_of_its_start() -> None:
    with (
        listen(LOOPBACK, 0, remote_needs="") as sockets,
        pytest.raises(BrokenPipeError),
        run_in_thread(lambda _: build_server(raise_broken_pipe), sockets),
    ):
        pytest.fail("it cannot start")


@pytest.mark.parametrize("loop", ["asyncio", "auto"])
def test_request_that_arrives_as_the_server_is_asked_to_exit_is_answered(loop: Any) -> None:
    options = UVICORN_OPTIONS | {"loop": loop}
    servers: list[Server] = []

    def build(on_started: Callable[[], None]) -> Server:
        servers.append(Server(uvicorn.Config(answer, **options), on_started=on_started))
        return servers[0]

    with (
        listen(LOOPBACK, 0, remote_needs="") as sockets,
        run_in_thread(build, sockets),
        socket.create_connection(sockets[0].getsockname(), timeout=10) as client,
    ):
        client.sendall(b"GET / HTTP/1.1\r\nhost: test\r\n\r\n")
        servers[0].request_exit()
        received, rest = client.recv(1000), client.recv(1000)

    assert received.startswith(b"HTTP/1.1 204")
    assert rest == b"", "the connection is closed after the answer"


def test_server_asked_to_exit_before_it_starts_ends_at_once() -> None:
    def build(on_started: Callable[[], None]) -> Server:
        server = build_server(on_started)
        server.request_exit()
        return server

    with listen(LOOPBACK, 0, remote_needs="") as sockets, run_in_thread(build, sockets):
        pass
