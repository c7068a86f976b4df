"""Random requests to the endpoint and to an API, over real sockets: no 5xx, no hang, no dead server."""

from __future__ import annotations

import gzip
import os
import re
import socket
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Annotated, Any

import pytest
from fastapi import APIRouter, Depends
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.core.http.connection import ConnectionBounds
from holdfast.stores.tables.embedded import open_tables
from holdfast.web import BytesBody, make_app, serve_in_thread
from holdfast.wire.http.server import Bounds, start_server
from holdfast.wire.operations import CODECS

# The server ends what a client leaves unfinished, so that the test need not wait for it.
IMPATIENT: dict[str, Any] = {"head_timeout_s": 0.1, "body_timeout_s": 0.1, "keep_alive_s": 0.05}
STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")
TIMEOUT_S = 20
# Requests of one example are sent at once, so that their timeouts pass at once.
SENT_AT_ONCE = 12
EXAMPLES = 400 if os.environ.get("HOLDFAST_SOAK") else 15

methods = st.sampled_from(
    [b"POST"] * 6 + [b"GET", b"PUT", b"DELETE", b"OPTIONS", b"HEAD", b"CONNECT", b"BREW"]
)
targets = st.sampled_from(
    [b"/"] * 6 + [b"/seats", b"*", b"/%00", b"//", b"/?a=%ff", b"http://localhost/", b"\xff"]
)
versions = st.sampled_from([b"HTTP/1.1"] * 8 + [b"HTTP/1.0", b"HTTP/2.0", b"HTTP/1.1 ", b"JUNK"])
hosts = st.sampled_from(
    [b"localhost"] * 8 + [b"evil.example", b"", b"a b", b"[::1]:1", b"localhost\r\nHost: b"]
)
encodings = st.sampled_from(
    [b"gzip", b"deflate", b"deflate, gzip", b"identity", b"br", b"gzip,gzip,gzip", b""]
)
values = st.binary(max_size=30) | st.sampled_from(
    [b"0", b"-1", b"9" * 400, b"chunked", b"close", b"100-continue"]
)
names = st.sampled_from(
    [
        b"Content-Length",
        b"Transfer-Encoding",
        b"Connection",
        b"Upgrade",
        b"Expect",
        b"Origin",
        b"Accept-Encoding",
        b"X-Amz-Date",
        b"Authorization",
        b"Cookie",
    ]
)
bodies = st.binary(max_size=200) | st.sampled_from([b"{}", b'{"Limit":1e400}', b"[" * 3000, b'{"Limit":7}'])


def pack(encoding: bytes, body: bytes) -> bytes:
    """Encode a body as the header says, as far as the header is valid."""
    for coding in encoding.split(b","):
        match coding.strip():
            case b"gzip":
                body = gzip.compress(body)
            case b"deflate":
                body = zlib.compress(body)
    return body


@st.composite
def requests(draw: st.DrawFn) -> bytes:
    """Draw a request: nearly valid more often than not, sometimes damaged, cut or continued."""
    body = draw(bodies)
    lines = [b"%s %s %s" % (draw(methods), draw(targets), draw(versions)), b"Host: " + draw(hosts)]
    if draw(st.booleans()):
        encoding = draw(encodings)
        lines.append(b"Content-Encoding: " + encoding)
        body = pack(encoding, body) if draw(st.integers(0, 3)) else body
    lines += [b"X-Amz-Target: " + draw(st.sampled_from(sorted(CODECS))).encode()]
    lines += [b"Content-Type: application/x-amz-json-1.0"]
    lines += [b"%s: %s" % pair for pair in draw(st.lists(st.tuples(names, values), max_size=4))]
    if draw(st.integers(0, 3)):
        lines.append(b"Content-Length: %d" % len(body))
    else:
        lines.append(b"Transfer-Encoding: chunked")
        body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) if body else b"0\r\n\r\n"
    whole = b"\r\n".join([*lines, b"", b""]) + body
    match draw(st.integers(0, 5)):
        case 0:
            return whole[: draw(st.integers(0, len(whole)))]
        case 1:
            place = draw(st.integers(0, len(whole)))
            return whole[:place] + draw(st.binary(min_size=1, max_size=5)) + whole[place:]
        case 2:
            return whole + draw(st.binary(max_size=50))
    return whole


@pytest.fixture(scope="module", params=["endpoint", "api"])
def address(request: pytest.FixtureRequest) -> Iterator[tuple[str, int]]:
    """Run the server of the endpoint, and that of an API whose route reads any body."""
    router = APIRouter()

    @router.post("/")
    async def take(body: Annotated[bytes, Depends(BytesBody(1000))]) -> int:
        return len(body)

    with ExitStack() as stack:
        if request.param == "endpoint":
            tables = stack.enter_context(open_tables())
            url = stack.enter_context(start_server(tables=tables, bounds=Bounds(**IMPATIENT)))
        else:
            app = make_app("Fuzzed", "1", [router])
            url = stack.enter_context(serve_in_thread(app, bounds=ConnectionBounds(**IMPATIENT)))
        host, _, port = url.removeprefix("http://").rpartition(":")
        yield host, int(port)


def send_all(address: tuple[str, int], sent: list[bytes]) -> list[bytes]:
    """Send each request on its own connection; return what each receives until the server closes."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_connection(address, timeout=TIMEOUT_S)) for _ in sent]
        for each, request in zip(sockets, sent, strict=True):
            try:
                each.sendall(request)
            except (BrokenPipeError, ConnectionResetError):
                pass
        return [read_to_end(each) for each in sockets]


def read_to_end(client: socket.socket) -> bytes:
    """Read until the server closes the connection; a server that does not raises `TimeoutError`."""
    received = bytearray()
    try:
        while part := client.recv(65536):
            received += part
    except ConnectionResetError:
        pass
    return bytes(received)


@settings(max_examples=EXAMPLES)
@given(sent=st.lists(requests(), min_size=SENT_AT_ONCE, max_size=SENT_AT_ONCE))
def test_no_request_fails_the_server_or_hangs(address: tuple[str, int], sent: list[bytes]) -> None:
    valid = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    *received, last = send_all(address, [*sent, valid])
    for request, response in zip(sent, received, strict=True):
        assert all(int(status) < 500 for status in STATUS.findall(response)), (request, response)
    assert STATUS.findall(last) in ([b"200"], [b"405"])
