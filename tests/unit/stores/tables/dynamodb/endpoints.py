"""HTTP endpoints for tests of the DynamoDB engine that fail, lose answers or answer as the test says.

run_scripted_endpoint    each request is answered by the test
run_signature_endpoint   the same, and reports each request's signature
run_lossy_endpoint       another endpoint, whose answers are lost on the way back when the test says so
"""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from holdfast.stores.tables.dynamodb import RetryTiming

JSON = "application/x-amz-json-1.0"
PREFIX = "com.amazonaws.dynamodb.v20120810#"


class Reply(NamedTuple):
    """The answer to one request."""

    status: int = 200
    body: bytes = b"{}"
    headers: Mapping[str, str] = MappingProxyType({})


Script: TypeAlias = Callable[[str, dict[str, Any]], Reply | None]
"""What is answered to an action and its request; None closes the connection without an answer."""


def ok(**members: Any) -> Reply:
    """Return a successful answer with these members."""
    return Reply(200, json.dumps(members).encode())


def error_reply(code: str, message: str = "said", status: int = 400, **members: Any) -> Reply:
    """Return the answer of a service error with this code."""
    return Reply(status, json.dumps({"__type": PREFIX + code, "message": message, **members}).encode())


class ReceivedRequests(list[tuple[str, dict[str, Any]]]):
    """The received requests in order, each with its action."""

    @property
    def actions(self) -> list[str]:
        return [action for action, _ in self]


@contextmanager
def run_scripted_endpoint(script: Script) -> Iterator[tuple[str, ReceivedRequests]]:
    """Run an endpoint that answers by the script; yield its address and the received requests."""
    received = ReceivedRequests()

    def answer(action: str, body: bytes, headers: Any) -> Reply | None:
        request = json.loads(body)
        received.append((action, request))
        return script(action, request)

    with _serve(answer) as url:
        yield url, received


@contextmanager
def run_signature_endpoint(script: Script, hear: Callable[[str], None]) -> Iterator[str]:
    """Run an endpoint that answers by the script and calls `hear` with each request's signature; yield its
    address.
    """

    def answer(action: str, body: bytes, headers: Any) -> Reply | None:
        hear(headers["Authorization"])
        return script(action, json.loads(body))

    with _serve(answer) as url:
        yield url


@contextmanager
def run_lossy_endpoint(behind: str, loses: Callable[[str], bool]) -> Iterator[str]:
    """Run a proxy of the endpoint `behind` and yield its address.

    It forwards every request, and drops the answers to those actions for which `loses` returns True.
    """

    def answer(action: str, body: bytes, headers: Any) -> Reply | None:
        parts = urlsplit(behind)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port or 80)
        connection.request("POST", "/", body, dict(headers))
        response = connection.getresponse()
        reply = Reply(response.status, response.read(), dict(response.headers))
        connection.close()
        return None if loses(action) else reply

    with _serve(answer) as url:
        yield url


@contextmanager
def _serve(answer: Callable[[str, bytes, Any], Reply | None]) -> Iterator[str]:
    """Run an HTTP server that answers every request by `answer`; yield its address."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            reply = answer(self.headers["X-Amz-Target"].rpartition(".")[2], body, self.headers)
            if reply is None:
                self.close_connection = True
                return
            with suppress(ConnectionError):  # a client that gave up waiting has disconnected
                self._send(reply)

        def _send(self, reply: Reply) -> None:
            headers = {"Content-Type": JSON, **reply.headers, "Content-Length": str(len(reply.body))}
            self.send_response(reply.status)
            for name, value in headers.items():
                if name.lower() not in ("date", "server", "connection", "transfer-encoding"):
                    self.send_header(name, value)
            self.end_headers()
            self.wfile.write(reply.body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class FakePauses(list[float]):
    """Recorded pauses that take no time: they move the clock instead.

    `chance` is the number that every draw of the jitter returns.
    """

    def __init__(self, chance: float = 1.0) -> None:
        super().__init__()
        self.time = 0.0
        self._chance = chance

    async def sleep(self, pause_s: float) -> None:
        """Record the pause and move the clock."""
        self.append(pause_s)
        self.time += pause_s

    @property
    def timing(self) -> RetryTiming:
        """Return the timing that makes an engine use these pauses."""
        return RetryTiming(draw_random=lambda: self._chance, sleep=self.sleep, now=lambda: self.time)
