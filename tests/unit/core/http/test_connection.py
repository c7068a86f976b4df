"""The limits of a connection, over real sockets: the same for the DynamoDB endpoint and the APIs."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from holdfast.core.http.connection import ConnectionBounds
from holdfast.web import serve_in_thread
from holdfast.wire.http.app import Receive, Scope, Send
from holdfast.wire.http.server import Bounds, start_app_server

MAX_TARGET_BYTES, MAX_HEAD_BYTES, MAX_HEADERS = 200, 1000, 20
LIMITS: dict[str, Any] = {
    "max_target_bytes": MAX_TARGET_BYTES,
    "max_head_bytes": MAX_HEAD_BYTES,
    "max_headers": MAX_HEADERS,
    "head_timeout_s": 0.3,
    "body_timeout_s": 0.3,
}
HEAD = b"POST /%s HTTP/1.1\r\nHost: %s\r\nContent-Length: 2\r\n"


class Reply(NamedTuple):
    status: int
    content_type: str
    body: bytes


async def answer(request: Request) -> Response:
    """Answer with the names of the headers and the length of the body."""
    names = [name.decode() for name, _ in request.scope["headers"]]
    return JSONResponse({"headers": names, "bytes": len(await request.body())})


async def answer_raw(scope: Scope, receive: Receive, send: Send) -> None:
    await (await answer(Request(scope, receive)))(scope, receive, send)


@pytest.fixture(scope="module", params=["endpoint", "api"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run the server of the endpoint and that of the APIs, with small limits."""
    if request.param == "endpoint":
        with start_app_server(answer_raw, Bounds(**LIMITS)) as at:
            yield at
    else:
        routes = [Route("/{path:path}", answer, methods=["GET", "POST"])]
        with serve_in_thread(Starlette(routes=routes), bounds=ConnectionBounds(**LIMITS)) as at:
            yield at


@pytest.fixture
def client(url: str) -> Iterator[Any]:
    """Open a connection; it has a file of what the server sends."""
    host, _, port = url.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=20) as opened:
        yield opened


def read_reply(client: socket.socket) -> Reply:
    with client.makefile("rb") as file:
        status = int(file.readline().split()[1])
        headers: dict[str, str] = {}
        while line := file.readline().strip():
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        return Reply(status, headers["content-type"], file.read(int(headers["content-length"])))


def is_closed(client: socket.socket) -> bool:
    try:
        return client.recv(1) == b""
    except ConnectionResetError:
        return True


def send(client: socket.socket, head: bytes, body: bytes = b"{}", *, in_one_write: bool = True) -> Reply:
    """Send a request at once, or its head byte by byte, and return the response."""
    if in_one_write:
        client.sendall(head + b"\r\n" + body)
    else:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            for start in range(0, len(head), 97):
                client.sendall(head[start : start + 97])
            client.sendall(b"\r\n" + body)
        except (ConnectionResetError, BrokenPipeError):
            pass
    return read_reply(client)


def build_head(path: bytes = b"", host: bytes = b"localhost", more: bytes = b"") -> bytes:
    return HEAD % (path, host) + more


# --- sizes --------------------------------------------------------------------------------------------------

in_both_ways = pytest.mark.parametrize("in_one_write", [True, False], ids=["one write", "many writes"])


@in_both_ways
def test_head_within_the_limits_is_answered(client: socket.socket, in_one_write: bool) -> None:
    more = b"X-Filler: a\r\n" * (MAX_HEADERS - 2)
    reply = send(client, build_head(b"a" * (MAX_TARGET_BYTES - 1), more=more), in_one_write=in_one_write)
    assert (reply.status, json.loads(reply.body)["bytes"]) == (200, 2)


@in_both_ways
@pytest.mark.parametrize(
    ("head", "status"),
    [
        (build_head(b"a" * MAX_TARGET_BYTES), 414),
        (build_head(b"?" + b"a" * MAX_TARGET_BYTES), 414),
        (build_head(more=b"X-Filler: a\r\n" * (MAX_HEADERS - 1)), 431),
        (build_head(more=b"X-Filler: %s\r\n" % (b"a" * MAX_HEAD_BYTES)), 431),
        (build_head(more=b"X-%s: 1\r\n" % (b"a" * MAX_HEAD_BYTES)), 431),
        (build_head(more=(b"X-Filler: %s\r\n" % (b"a" * 100)) * 9), 431),
    ],
    ids=["path", "query", "number", "value", "name", "sum"],
)
def test_head_over_a_limit_is_refused(
    client: socket.socket, head: bytes, status: int, in_one_write: bool
) -> None:
    reply = send(client, head, in_one_write=in_one_write)
    assert (reply.status, reply.content_type.startswith("application/")) == (status, True)
    assert json.loads(reply.body)
    assert is_closed(client)


def test_second_head_of_one_write_has_the_same_limits(client: socket.socket) -> None:
    more = b"X-Filler: a\r\n" * MAX_HEADERS
    client.sendall(build_head() + b"\r\n{}" + build_head(more=more) + b"\r\n{}")
    statuses = client.makefile("rb").read()
    assert b"HTTP/1.1 431" in statuses


def test_large_body_before_the_next_head_is_not_counted_as_head(client: socket.socket) -> None:
    body = b"x" * 5 * MAX_HEAD_BYTES
    first = build_head().replace(b"Content-Length: 2", b"Content-Length: %d" % len(body))
    client.sendall(first + b"\r\n" + body + build_head()[:20])
    assert read_reply(client).status == 200
    client.sendall(build_head()[20:] + b"\r\n{}")
    assert read_reply(client).status == 200


def build_chunked(trailers: bytes) -> bytes:
    head = build_head().replace(b"Content-Length: 2", b"Transfer-Encoding: chunked")
    return head + b"\r\n2\r\n{}\r\n0\r\n" + trailers + b"\r\n"


def test_trailers_are_not_headers(client: socket.socket) -> None:
    """What comes after the checks must not change what they have checked."""
    client.sendall(build_chunked(b"Host: evil.example\r\nAuthorization: Bearer x\r\n"))
    reply = read_reply(client)
    assert (reply.status, json.loads(reply.body)["headers"]) == (200, ["host", "transfer-encoding"])


@pytest.mark.parametrize(
    "trailers", [b"X-Trailer: 1\r\n" * 100, b"X-Trailer: " + b"a" * 300_000], ids=["many", "long"]
)
def test_endless_trailers_are_refused(client: socket.socket, trailers: bytes) -> None:
    client.sendall(build_chunked(b"")[:-2])
    client.sendall(trailers)
    assert read_reply(client).status == 431
    assert is_closed(client)


# --- hosts and origins --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (build_head(host=b"localhost:1"), 200),
        (build_head(host=b"evil.example"), 403),
        (build_head(host=b"user@localhost"), 400),
        (build_head(host=b"localhost\r\nHost: localhost"), 400),
        (b"POST / HTTP/1.1\r\nContent-Length: 2\r\n", 400),
        (b"POST / HTTP/1.0\r\nContent-Length: 2\r\n", 200),
        (build_head(more=b"Origin: http://evil.example\r\n"), 403),
        (build_head(more=b"Origin: null\r\n"), 403),
        (build_head(more=b"Origin: http://localhost\r\n"), 200),
        (build_head().replace(b"POST /", b"POST http://localhost/"), 200),
        (build_head().replace(b"POST /", b"POST http://evil.example/"), 400),
    ],
    ids=[
        "own",
        "foreign",
        "userinfo",
        "two hosts",
        "no host",
        "HTTP/1.0",
        "foreign page",
        "null",
        "own page",
        "own target",
        "foreign target",
    ],
)
def test_head_is_answered_only_for_its_own_host_and_origin(
    client: socket.socket, head: bytes, status: int
) -> None:
    reply = send(client, head)
    assert reply.status == status
    assert "json" in reply.content_type


@pytest.mark.parametrize("method", [b"POST", b"DELETE", b"PUT"])
def test_foreign_page_cannot_send_a_request_without_a_body(client: socket.socket, method: bytes) -> None:
    client.sendall(method + b" / HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\n\r\n")
    reply = read_reply(client)
    assert reply.status == 403
    assert b"allowed_origins" in reply.body


def test_connection_stays_open_after_a_refused_host(client: socket.socket) -> None:
    assert send(client, build_head(host=b"evil.example")).status == 403
    assert send(client, build_head()).status == 200


def test_refused_host_is_answered_while_the_client_still_sends(client: socket.socket) -> None:
    head = build_head(host=b"evil.example").replace(b"Content-Length: 2", b"Content-Length: 1000000")
    client.sendall(head + b"\r\n")
    assert read_reply(client).status == 403
    client.sendall(b"x" * 1_000_000)
    assert send(client, build_head()).status == 200


# --- time ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "start", [build_head()[:-10], build_head() + b"\r\n{"], ids=["unfinished head", "unfinished body"]
)
def test_slow_request_is_refused(client: socket.socket, start: bytes) -> None:
    client.sendall(start)
    assert read_reply(client).status == 408
    assert is_closed(client)
