"""A load generator over HTTP: it sends prebuilt requests over keep-alive connections and counts responses."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from urllib.parse import urlsplit

import uvloop

HEAD_END = b"\r\n\r\n"
LENGTH_HEADER = b"content-length: "


def measure_request_rate(
    url: str, requests: Sequence[bytes], connections: int, *, status: int = 200
) -> float:
    """Send all requests over this many connections and return how many are answered per second.

    Raise `AssertionError` if a response has another status than `status`.
    """
    return uvloop.run(_send_all(url, requests, connections, status))


def build_post(path: str, body: bytes, **headers: str) -> bytes:
    """Return a POST request with a JSON body as bytes. Underscores in header names become hyphens."""
    lines = [f"POST {path} HTTP/1.1", "host: localhost", "content-type: application/json"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    lines += [f"content-length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body


async def _send_all(url: str, requests: Sequence[bytes], connections: int, status: int) -> float:
    """Open the connections, send all requests over them, and return the responses per second."""
    address, loop = urlsplit(url), asyncio.get_running_loop()
    host_and_port = address.hostname or "", address.port or 80
    opened = [
        (await loop.create_connection(lambda: _Connection(loop.create_future(), status), *host_and_port))[1]
        for _ in range(connections)
    ]
    remaining = list(reversed(requests))
    started = time.perf_counter()
    for connection in opened:
        connection.start(remaining)
    await asyncio.gather(*(connection.done for connection in opened))
    rate = len(requests) / (time.perf_counter() - started)
    for connection in opened:
        connection.transport.close()
    return rate


class _Connection(asyncio.Protocol):
    """A connection that sends the next remaining request when the last one is answered."""

    transport: asyncio.Transport

    def __init__(self, done: asyncio.Future[None], status: int) -> None:
        self.done, self._response, self._remaining = done, b"", list[bytes]()
        self._expected_status = b"HTTP/1.1 %d" % status

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self.transport = transport  # type: ignore[assignment]

    def start(self, remaining: list[bytes]) -> None:
        """Send the first of the remaining requests; the list is shared with the other connections."""
        self._remaining = remaining
        self._send_next()

    def data_received(self, data: bytes) -> None:
        """Collect a whole response; then send the next request, or fail if its status is unexpected."""
        self._response += data
        head, found, body = self._response.partition(HEAD_END)
        if not found or len(body) < _parse_length(head):
            return
        self._response = b""
        if head.startswith(self._expected_status):
            self._send_next()
        else:
            self.done.set_exception(AssertionError((head + HEAD_END + body).decode()))

    def connection_lost(self, error: Exception | None) -> None:
        if not self.done.done():
            self.done.set_exception(error or ConnectionError("The server closed the connection."))

    def _send_next(self) -> None:
        """Send the next remaining request, or report that this connection is done."""
        if self._remaining:
            self.transport.write(self._remaining.pop())
        else:
            self.done.set_result(None)


def _parse_length(head: bytes) -> int:
    """Return the value of the content-length header of a response head."""
    return int(head.lower().split(LENGTH_HEADER)[1].split(b"\r\n")[0])
