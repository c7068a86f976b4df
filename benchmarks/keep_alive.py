"""A client that costs as little as one can: ready-made requests over connections kept alive, answers only counted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from urllib.parse import urlsplit

import uvloop

HEAD_END = b"\r\n\r\n"
LENGTH = b"content-length: "


def rate_of(url: str, requests: Sequence[bytes], connections: int, *, status: int = 200) -> float:
    """How many of the requests are answered per second, each by `status`, when so many connections share them."""
    return uvloop.run(_asked(url, requests, connections, status))


def posted(path: str, body: bytes, **headers: str) -> bytes:
    """A request as bytes. Underscores in the names of headers stand for hyphens."""
    lines = [f"POST {path} HTTP/1.1", "host: localhost", "content-type: application/json"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    lines += [f"content-length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body


async def _asked(url: str, requests: Sequence[bytes], connections: int, status: int) -> float:
    address, loop = urlsplit(url), asyncio.get_running_loop()
    place = address.hostname or "", address.port or 80
    lines = [
        (await loop.create_connection(lambda: _Line(loop.create_future(), status), *place))[1]
        for _ in range(connections)
    ]
    left = list(reversed(requests))
    begun = time.perf_counter()
    for line in lines:
        line.start(left)
    await asyncio.gather(*(line.ended for line in lines))
    rate = len(requests) / (time.perf_counter() - begun)
    for line in lines:
        line.transport.close()
    return rate


class _Line(asyncio.Protocol):
    """One connection: takes the next of the requests that are left whenever the last one is answered."""

    transport: asyncio.Transport

    def __init__(self, ended: asyncio.Future[None], status: int) -> None:
        self.ended, self._answer, self._left = ended, b"", list[bytes]()
        self._wanted = b"HTTP/1.1 %d" % status

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        self.transport = transport  # type: ignore[assignment]

    def start(self, left: list[bytes]) -> None:
        self._left = left
        self._ask()

    def data_received(self, data: bytes) -> None:
        self._answer += data
        head, found, body = self._answer.partition(HEAD_END)
        if not found or len(body) < _length(head):
            return
        self._answer = b""
        if head.startswith(self._wanted):
            self._ask()
        else:
            self.ended.set_exception(AssertionError((head + HEAD_END + body).decode()))

    def connection_lost(self, error: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_exception(error or ConnectionError("The server has closed the connection."))

    def _ask(self) -> None:
        if self._left:
            self.transport.write(self._left.pop())
        else:
            self.ended.set_result(None)


def _length(head: bytes) -> int:
    return int(head.lower().split(LENGTH)[1].split(b"\r\n")[0])
