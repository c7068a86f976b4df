"""The DynamoDB server over real sockets: responses, slow or broken clients, limits, and shutdown."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from holdfast.core.errors import SettingsError
from holdfast.operations.tables import Operation
from holdfast.operations.tables.list_tables import ListTables, ListTablesResult
from holdfast.wire.http.server import Bounds, serve, start_server

JSON = "application/x-amz-json-1.0"
TARGET = "DynamoDB_20120810.ListTables"
AUTHORIZATION = (
    "AWS4-HMAC-SHA256 Credential=AKID/20261115/eu-west-1/dynamodb/aws4_request, "
    "SignedHeaders=host;x-amz-date, Signature=" + "a" * 64
)
SIGNED = {"Authorization": AUTHORIZATION, "X-Amz-Date": "20261115T120000Z"}
USUAL = {"Host": "localhost", "Content-Type": JSON, "X-Amz-Target": TARGET, **SIGNED}
OK = {"TableNames": ["orders"]}


class FakeTables:
    """A fake store with one table. `failure` is raised instead of an answer; `gate` delays an answer until it
    is set.
    """

    never_answers = False
    names: tuple[str, ...] = ("orders",)

    def __init__(self) -> None:
        self.seen: list[Operation[Any]] = []
        self.failure: Exception | None = None
        self.gate: threading.Event | None = None
        self.entered = threading.Event()

    async def run(self, operation: Operation[Any]) -> Any:
        self.seen.append(operation)
        self.entered.set()
        if self.never_answers:
            await asyncio.get_running_loop().create_future()
        if self.gate is not None:
            await asyncio.get_running_loop().run_in_executor(None, self.gate.wait)
        if self.failure is not None:
            raise self.failure
        return ListTablesResult(names=self.names)


class Reply(NamedTuple):
    """A response as the client read it."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """A socket that sends given bytes and reads one response at a time."""

    def __init__(self, url: str) -> None:
        host, _, port = url.removeprefix("http://").rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=20)
        self._file = self._socket.makefile("rb")

    def send(self, data: bytes) -> Client:
        self._socket.sendall(data)
        return self

    def reply(self) -> Reply:
        """Read one response: status line, headers, and as much body as its content-length says."""
        status = int(self._file.readline().split()[1])
        headers = {}
        while line := self._file.readline().strip():
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        return Reply(status, headers, self._file.read(int(headers.get("content-length", 0))))

    def is_closed_by_the_server(self) -> bool:
        """Wait until the server closes the connection; False if it sends another byte."""
        try:
            return self._file.read(1) == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        self._file.close()
        self._socket.close()


def http_request(
    body: bytes = b"{}", *, method: str = "POST", path: str = "/", headers: dict[str, str] | None = None
) -> bytes:
    """Return the bytes of a request, by default a valid ListTables with `USUAL` headers."""
    sent = USUAL if headers is None else headers
    if headers is not None and "Host" not in headers:
        sent = {"Host": "localhost", **headers}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in sent.items())]
    if not {"content-length", "transfer-encoding"} & {name.lower() for name in sent}:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def headers_without(name: str) -> dict[str, str]:
    return {known: value for known, value in USUAL.items() if known != name}


@contextlib.contextmanager
def connect(url: str) -> Iterator[Client]:
    """Open a connection to the server; close it at the end."""
    client = Client(url)
    try:
        yield client
    finally:
        client.close()


def ask(url: str, request: bytes) -> Reply:
    """Send the bytes of a request on a new connection and return the response."""
    with connect(url) as client:
        return client.send(request).reply()


def is_accepted(url: str) -> bool:
    """Return whether the server answers a valid request on a new connection with 200."""
    try:
        return ask(url, http_request()).status == 200
    except (ConnectionError, IndexError):
        return False


@pytest.fixture
def tables() -> FakeTables:
    return FakeTables()


@pytest.fixture(scope="module")
def shared_url() -> Iterator[str]:
    """Run one server for tests of refusals and plain answers."""
    with start_server(tables=FakeTables()) as url:
        yield url


# --- an operation -------------------------------------------------------------------------------------------


def test_an_operation_is_answered_with_the_services_headers(shared_url: str) -> None:
    reply = ask(shared_url, http_request())
    assert (reply.status, reply.json) == (200, OK)
    assert re.fullmatch("[0-9A-Z]{52}", reply.headers["x-amzn-requestid"])
    assert reply.headers["x-amz-crc32"] == str(zlib.crc32(reply.body))
    assert reply.headers["content-type"] == JSON
    assert reply.headers["content-length"] == str(len(reply.body))


def test_every_request_has_an_id_of_its_own(shared_url: str) -> None:
    with connect(shared_url) as client:
        ids = {client.send(http_request()).reply().headers["x-amzn-requestid"] for _ in range(20)}
    assert len(ids) == 20


def test_boto3_works_unmodified(shared_url: str) -> None:
    assert make_boto_client(shared_url).list_tables()["TableNames"] == ["orders"]


def test_plain_json_is_answered_with_plain_json(shared_url: str) -> None:
    reply = ask(shared_url, http_request(headers=USUAL | {"Content-Type": " application/json ; charset=x"}))
    assert (reply.status, reply.headers["content-type"]) == (200, "application/json")


def test_a_chunked_body_is_read_to_its_end(tables: FakeTables) -> None:
    with start_server(tables=tables) as url:
        chunks = b'8\r\n{"Limit"\r\n3\r\n:7}\r\n0\r\n\r\n'
        assert ask(url, http_request(chunks, headers=USUAL | {"Transfer-Encoding": "chunked"})).json == OK
    assert tables.seen == [ListTables(limit=7)]


def test_assembles_a_body_sent_byte_by_byte(shared_url: str) -> None:
    with connect(shared_url) as client:
        for byte in http_request(b'{"Limit":5}'):
            client.send(bytes([byte]))
        assert client.reply().json == OK


def test_answers_expect_continue(shared_url: str) -> None:
    with connect(shared_url) as client:
        client.send(http_request(b"", headers=USUAL | {"Expect": "100-continue", "Content-Length": "2"}))
        assert client.reply().status == 100
        assert client.send(b"{}").reply().json == OK


def test_decompresses_every_part_of_a_body(tables: FakeTables) -> None:
    """Decompress a gzip body that consists of two members."""
    packed = gzip.compress(b'{"Limit"') + gzip.compress(b":7}")
    with start_server(tables=tables) as url:
        assert ask(url, http_request(packed, headers=USUAL | {"Content-Encoding": "gzip"})).json == OK
    assert tables.seen == [ListTables(limit=7)]


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("deflate", zlib.compress(b'{"Limit":7}')),
        ("deflate", zlib.compress(b'{"Limit":7}')[2:-4]),
        ("deflate, gzip", gzip.compress(zlib.compress(b'{"Limit":7}'))),
        ("identity", b'{"Limit":7}'),
    ],
    ids=["zlib", "bare", "both", "identity"],
)
def test_decodes_every_supported_encoding(tables: FakeTables, encoding: str, body: bytes) -> None:
    chunks = b"%x\r\n%s\r\n" * len(body) % tuple(part for byte in body for part in (1, bytes([byte])))
    with start_server(tables=tables) as url:
        encoded = USUAL | {"Content-Encoding": encoding}
        assert ask(url, http_request(body, headers=encoded)).json == OK
        chunked = http_request(chunks + b"0\r\n\r\n", headers=encoded | {"Transfer-Encoding": "chunked"})
        assert ask(url, chunked).json == OK
    assert tables.seen == [ListTables(limit=7)] * 2


def test_encodings_of_several_headers_are_all_decoded(tables: FakeTables) -> None:
    body = gzip.compress(zlib.compress(b'{"Limit":7}'))
    request = http_request(body, headers=USUAL | {"Content-Encoding": "deflate\r\nContent-Encoding: gzip"})
    with start_server(tables=tables) as url:
        assert ask(url, request).json == OK
    assert tables.seen == [ListTables(limit=7)]


def test_a_body_of_empty_parts_is_refused_before_they_take_time(shared_url: str) -> None:
    body = gzip.compress(b"") * 60_000
    reply = ask(shared_url, http_request(body, headers=USUAL | {"Content-Encoding": "gzip"}))
    assert (reply.status, reply.json["Message"]) == (
        400,
        "The request body cannot be decompressed: too many members in gzip data",
    )


def test_decoded_bodies_share_the_memory_of_all_requests(tables: FakeTables) -> None:
    """A small body that decodes to a large one counts with its decoded size until it is answered."""
    packed = http_request(gzip.compress(LARGE), headers=USUAL | {"Content-Encoding": "gzip"})
    tables.gate = threading.Event()
    with start_server(tables=tables, bounds=ROOM_FOR_ONE) as url, connect(url) as client:
        client.send(packed)
        assert tables.entered.wait(20)
        try:
            assert ask(url, packed).status == 503
        finally:
            tables.gate.set()
        assert client.reply().status == 200
        assert ask(url, packed).status == 200


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", b"{}"),
        ("gzip", b""),
        ("gzip", gzip.compress(b"{}")[:-1]),
        ("gzip", gzip.compress(b"{}") + b"junk"),
        ("deflate", zlib.compress(b"{}")[:-1]),
        ("deflate", zlib.compress(b"{}") + b"junk"),
        ("gzip, gzip, gzip", gzip.compress(gzip.compress(gzip.compress(b"{}")))),
        ("br", b"{}"),
    ],
    ids=[
        "not packed",
        "empty",
        "cut short",
        "junk behind",
        "cut deflate",
        "junk behind deflate",
        "a long list",
        "another encoding",
    ],
)
def test_undecompressable_body_is_a_client_error(tables: FakeTables, encoding: str, body: bytes) -> None:
    with start_server(tables=tables) as url:
        reply = ask(url, http_request(body, headers=USUAL | {"Content-Encoding": encoding}))
    assert (reply.status, reply.json["__type"].partition("#")[2]) == (400, "SerializationException")
    assert tables.seen == []


# --- refusals before an operation is known ------------------------------------------------------------------


def test_root_get_reports_healthy(shared_url: str) -> None:
    reply = ask(
        shared_url, http_request(b"", method="GET", headers={"Host": "dynamodb.us-east-1.amazonaws.com"})
    )
    assert (reply.status, reply.body) == (200, b"healthy: dynamodb.us-east-1.amazonaws.com ")
    assert reply.headers["x-amz-crc32"] == "3128867991"


@pytest.mark.parametrize(
    "request_bytes",
    [
        http_request(b"", method="GET", path="/healthy"),
        http_request(path="/other"),
        http_request(method="PUT"),
        http_request(b"", method="DELETE"),
        http_request(b"", method="OPTIONS", headers=USUAL | {"Origin": "http://example.com"}),
        http_request(b"hi", headers=headers_without("Content-Type")),
        http_request(b"hi", headers=USUAL | {"Content-Type": "application/x-amz-json-1.1"}),
        http_request(b"hi", headers=USUAL | {"Content-Type": "application/jsonx"}),
    ],
    ids=["path of GET", "path", "PUT", "DELETE", "preflight", "no type", "json 1.1", "odd type"],
)
def test_request_that_names_no_operation_gets_404(shared_url: str, request_bytes: bytes) -> None:
    reply = ask(shared_url, request_bytes)
    assert (reply.status, reply.body) == (404, b"<UnknownOperationException/>\n")
    assert reply.headers["x-amz-crc32"] == "3552371480"


UNKNOWN = {"__type": "com.amazon.coral.service#UnknownOperationException"}
MALFORMED = {"__type": "com.amazon.coral.service#SerializationException"}
MISSING = {
    "__type": "com.amazon.coral.service#MissingAuthenticationTokenException",
    "message": "Request is missing Authentication Token",
}


@pytest.mark.parametrize(
    ("request_bytes", "answer"),
    [
        (http_request(headers=headers_without("X-Amz-Target")), UNKNOWN),
        (http_request(headers=USUAL | {"X-Amz-Target": "DynamoDB_20120810.ListTable"}), UNKNOWN),
        (http_request(headers=USUAL | {"X-Amz-Target": "DynamoDBStreams_20120810.ListTables"}), UNKNOWN),
        (http_request(b"hi"), MALFORMED),
        (http_request(b""), MALFORMED),
        (http_request(b"[" * 100_000), MALFORMED),
        (http_request(headers=headers_without("Authorization")), MISSING),
        (http_request(headers=USUAL | {"Authorization": "AWS4"}), MISSING),
        (http_request(b"hi", headers={"Content-Type": JSON}), MALFORMED),
        (http_request(headers={"Content-Type": JSON}), UNKNOWN),
    ],
    ids=[
        "no target",
        "unknown target",
        "target of the other service",
        "no JSON",
        "no body",
        "deep JSON",
        "no signature",
        "half a signature",
        "JSON comes before target and signature",
        "target comes before signature",
    ],
)
def test_target_json_and_signature_are_checked_in_the_services_order(
    shared_url: str, request_bytes: bytes, answer: dict[str, str]
) -> None:
    reply = ask(shared_url, request_bytes)
    assert (reply.status, reply.json) == (400, answer)


def test_incomplete_signature_error_lists_what_is_missing(shared_url: str) -> None:
    reply = ask(
        shared_url, http_request(headers=USUAL | {"Authorization": "AWS4- Signature=b, Credential=a"})
    )
    assert reply.json == {
        "__type": "com.amazon.coral.service#IncompleteSignatureException",
        "message": "Authorization header requires 'SignedHeaders' parameter. "
        "Authorization=AWS4- Signature=b, Credential=a",
    }


def test_a_known_credential_does_not_excuse_a_missing_signature(shared_url: str) -> None:
    with connect(shared_url) as client:
        assert client.send(http_request()).reply().status == 200
        unsigned = AUTHORIZATION.partition(", Signature=")[0]
        assert client.send(http_request(headers=USUAL | {"Authorization": unsigned})).reply().status == 400


def test_unexpected_failure_is_logged_by_id_and_reported_without_details(
    tables: FakeTables, caplog: pytest.LogCaptureFixture
) -> None:
    tables.failure = ZeroDivisionError("the inside")
    with start_server(tables=tables) as url:
        reply = ask(url, http_request())
    assert (reply.status, reply.json["__type"].partition("#")[2]) == (500, "InternalServerError")
    assert b"inside" not in reply.body
    assert reply.headers["x-amzn-requestid"] in caplog.text
    assert "ZeroDivisionError: the inside" in caplog.text


# --- signatures ---------------------------------------------------------------------------------------------


def make_boto_client(url: str, key: str = "AKID", secret: str = "secret") -> Any:
    """Return a boto3 client for the server that does not retry."""
    return boto3.client(
        "dynamodb",
        endpoint_url=url,
        region_name="eu-west-1",
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        config=Config(retries={"total_max_attempts": 1}),
    )


@pytest.fixture(scope="module")
def guarded_url() -> Iterator[str]:
    """Run one server that verifies signatures."""
    with start_server(tables=FakeTables(), credentials={"AKID": "secret"}) as url:
        yield url


def test_accepts_the_right_secret(guarded_url: str) -> None:
    assert make_boto_client(guarded_url).list_tables()["TableNames"] == ["orders"]


@pytest.mark.parametrize(
    ("key", "secret", "code"),
    [("AKID", "guess", "InvalidSignatureException"), ("OTHER", "secret", "UnrecognizedClientException")],
)
def test_rejects_other_credentials(guarded_url: str, key: str, secret: str, code: str) -> None:
    with pytest.raises(ClientError) as refused:
        make_boto_client(guarded_url, key, secret).list_tables()
    assert refused.value.response["Error"]["Code"] == code


def test_cross_origin_requests_are_allowed_with_verified_signatures(guarded_url: str) -> None:
    preflight = {
        "Origin": "http://example.com",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "x-amz-target",
    }
    reply = ask(guarded_url, http_request(b"", method="OPTIONS", headers=preflight))
    assert (reply.status, reply.body) == (200, b"")
    assert reply.headers["access-control-allow-origin"] == "*"
    assert reply.headers["access-control-allow-methods"] == "POST"
    assert reply.headers["access-control-allow-headers"] == "x-amz-target"
    assert reply.headers["access-control-max-age"] == "172800"


def test_sends_no_cross_origin_headers_without_credentials(shared_url: str) -> None:
    reply = ask(shared_url, http_request(headers=USUAL | {"Origin": "http://example.com"}))
    assert "access-control-allow-origin" not in reply.headers


# --- host names ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["localhost:8000", "127.0.0.1", "[::1]:8000", "a.localhost"])
def test_local_host_names_are_accepted_without_credentials(shared_url: str, host: str) -> None:
    with connect(shared_url) as client:
        for _ in range(2):
            assert client.send(http_request(headers=USUAL | {"Host": host})).reply().json == OK


@pytest.mark.parametrize("method", ["POST", "GET", "OPTIONS"])
def test_foreign_host_names_are_refused_without_credentials(tables: FakeTables, method: str) -> None:
    with start_server(tables=tables) as url:
        reply = ask(url, http_request(method=method, headers=USUAL | {"Host": "evil.example:8000"}))
    assert reply.status == 403
    assert reply.json["__type"] == "com.amazon.coral.service#AccessDeniedException"
    assert "configure credentials" in reply.json["message"]
    assert "HOLDFAST_ACCESS_KEY_ID" in reply.json["message"]
    assert tables.seen == []


def test_old_request_without_a_host_header_is_accepted(shared_url: str) -> None:
    request = http_request().replace(b"Host: localhost\r\n", b"").replace(b"HTTP/1.1", b"HTTP/1.0")
    assert ask(shared_url, request).json == OK


def test_accepts_more_local_host_names_than_it_caches(shared_url: str) -> None:
    with connect(shared_url) as client:
        for number in range(200):
            headers = USUAL | {"Host": f"{number}.localhost"}
            assert client.send(http_request(headers=headers)).reply().status == 200


def test_any_host_name_is_accepted_with_credentials(guarded_url: str) -> None:
    reply = ask(guarded_url, http_request(b"", method="GET", headers={"Host": "tables.example"}))
    assert (reply.status, reply.body) == (200, b"healthy: tables.example ")


# --- large requests -----------------------------------------------------------------------------------------

SMALL = Bounds(max_body_bytes=1000)


def test_declared_oversized_body_is_refused_with_a_readable_answer(tables: FakeTables) -> None:
    with start_server(tables=tables, bounds=SMALL) as url, connect(url) as client:
        reply = client.send(http_request(b" " * 20_000_000)).reply()
        assert (reply.status, reply.headers["connection"]) == (413, "close")
        assert reply.json["__type"].endswith("#RequestTooLargeException")
        assert client.is_closed_by_the_server()
    assert tables.seen == []


def test_undeclared_oversized_body_is_refused(tables: FakeTables) -> None:
    chunk = b"190\r\n" + b" " * 400 + b"\r\n"
    with start_server(tables=tables, bounds=SMALL) as url, connect(url) as client:
        client.send(http_request(chunk * 3 + b"0\r\n\r\n", headers=USUAL | {"Transfer-Encoding": "chunked"}))
        assert client.reply().status == 413
    assert tables.seen == []


def test_body_that_decompresses_too_large_is_refused(tables: FakeTables) -> None:
    packed = gzip.compress(b"{}" + b" " * 100_000)
    assert len(packed) < SMALL.max_body_bytes
    with start_server(tables=tables, bounds=SMALL) as url:
        assert ask(url, http_request(packed, headers=USUAL | {"Content-Encoding": "gzip"})).status == 413


def test_expect_continue_is_refused_for_an_oversized_body() -> None:
    with start_server(tables=FakeTables(), bounds=SMALL) as url, connect(url) as client:
        client.send(http_request(b"", headers=USUAL | {"Expect": "100-continue", "Content-Length": "2000"}))
        assert client.reply().status == 413
        assert client.is_closed_by_the_server()


# More than one read of a socket returns, so that it arrives in pieces.
LARGE = b"{}" + b" " * 999_998
ROOM_FOR_ONE = Bounds(max_total_body_bytes=1_500_000)


def wait_until_a_large_body_is_answered(url: str, status: int) -> Reply:
    """Send large requests until one is answered with this status, for at most 20 seconds."""
    deadline = time.monotonic() + 20
    while (reply := ask(url, http_request(LARGE))).status != status:
        assert time.monotonic() < deadline
    return reply


def test_unfinished_large_bodies_block_only_other_large_bodies(tables: FakeTables) -> None:
    with start_server(tables=tables, bounds=ROOM_FOR_ONE) as url, connect(url) as client:
        assert ask(url, http_request(LARGE)).status == 200
        client.send(http_request(LARGE)[:-1000])
        reply = wait_until_a_large_body_is_answered(url, 503)
        assert reply.json["__type"] == "com.amazon.coral.service#ServiceUnavailable"
        assert reply.headers["connection"] == "close"
        assert ask(url, http_request()).status == 200
        with connect(url) as slow:
            slow.send(http_request(b'{"Limit":5}')[:-1])
            assert slow.send(b"}").reply().status == 200

        assert client.send(LARGE[-1000:]).reply().status == 200
        assert ask(url, http_request(LARGE)).status == 200


def test_large_request_occupies_memory_until_answered(tables: FakeTables) -> None:
    tables.gate = threading.Event()
    with start_server(tables=tables, bounds=ROOM_FOR_ONE) as url, connect(url) as client:
        client.send(http_request(LARGE))
        assert tables.entered.wait(20)
        try:
            assert ask(url, http_request(LARGE)).status == 503
        finally:
            tables.gate.set()
        assert client.reply().status == 200
        assert ask(url, http_request(LARGE)).status == 200


def test_disconnected_client_frees_its_memory(tables: FakeTables) -> None:
    with start_server(tables=tables, bounds=ROOM_FOR_ONE) as url:
        with connect(url) as client:
            client.send(http_request(LARGE)[:-1000])
            wait_until_a_large_body_is_answered(url, 503)
        wait_until_a_large_body_is_answered(url, 200)


def test_client_refused_for_memory_reads_the_answer_and_is_closed(tables: FakeTables) -> None:
    bounds = Bounds(max_total_body_bytes=500_000)
    with start_server(tables=tables, bounds=bounds) as url, connect(url) as client:
        assert client.send(http_request(LARGE)).reply().status == 503
        assert client.is_closed_by_the_server()
    assert tables.seen == []


def test_an_endless_head_is_refused() -> None:
    with (
        start_server(tables=FakeTables(), bounds=Bounds(max_head_bytes=2000)) as url,
        connect(url) as client,
    ):
        client.send(b"POST / HTTP/1.1\r\nX-Filler: " + b"a" * 5000)
        assert client.reply().status == 431
        assert client.is_closed_by_the_server()


def test_endless_trailers_are_refused() -> None:
    with start_server(tables=FakeTables(), bounds=Bounds(max_headers=50)) as url, connect(url) as client:
        client.send(http_request(b"2\r\n{}\r\n0\r\n", headers=USUAL | {"Transfer-Encoding": "chunked"}))
        client.send(b"X-Trailer: 1\r\n" * 100)
        assert client.reply().status == 431


# --- slow, silent and broken clients ------------------------------------------------------------------------

# Short, yet longer than a busy machine may keep a test from sending what it has just begun to send.
IMPATIENT = Bounds(head_timeout_s=0.5, body_timeout_s=0.1, keep_alive_s=0.1)


@pytest.fixture(scope="module")
def impatient_url() -> Iterator[str]:
    """Run one server with short timeouts."""
    with start_server(tables=FakeTables(), bounds=IMPATIENT) as url:
        yield url


def test_silent_connection_is_closed(impatient_url: str) -> None:
    with connect(impatient_url) as client:
        assert client.is_closed_by_the_server()


def test_unfinished_head_times_out(impatient_url: str) -> None:
    with connect(impatient_url) as client:
        assert client.send(http_request()[:40]).reply().status == 408
        assert client.is_closed_by_the_server()


def test_unfinished_body_times_out(impatient_url: str) -> None:
    with connect(impatient_url) as client:
        reply = client.send(http_request()[:-1]).reply()
        assert (reply.status, reply.json["__type"].partition("#")[2]) == (408, "RequestTimeoutException")
        assert client.is_closed_by_the_server()


def test_unfinished_second_request_times_out(impatient_url: str) -> None:
    with connect(impatient_url) as client:
        assert client.send(http_request() + http_request()[:60]).reply().status == 200
        assert client.reply().status == 408


def test_a_connection_without_a_further_request_is_closed(impatient_url: str) -> None:
    with connect(impatient_url) as client:
        assert client.send(http_request()).reply().status == 200
        assert client.is_closed_by_the_server()


def test_blank_lines_do_not_keep_a_connection_open(impatient_url: str) -> None:
    with connect(impatient_url) as client:
        assert client.send(http_request()).reply().status == 200
        client.send(b"\r\n")
        assert client.is_closed_by_the_server()


def test_unfinished_refused_body_times_out() -> None:
    bounds = Bounds(max_body_bytes=1000, body_timeout_s=0.05)
    with start_server(tables=FakeTables(), bounds=bounds) as url, connect(url) as client:
        assert (
            client.send(http_request(b"", headers=USUAL | {"Content-Length": "2000"})).reply().status == 413
        )
        assert client.is_closed_by_the_server()


def test_a_client_that_does_not_read_its_answer_is_cut_off(tables: FakeTables) -> None:
    tables.names = ("a" * 1_000_000,) * 40  # more than the machine buffers for a connection
    bounds = Bounds(write_timeout_s=0.05, max_connections=1)
    with start_server(tables=tables, bounds=bounds) as url, connect(url) as client:
        client.send(http_request())
        assert tables.entered.wait(20)
        tables.names = ("orders",)
        # Only one connection is allowed: another is accepted once the first was cut off.
        deadline = time.monotonic() + 20
        while not is_accepted(url):
            assert time.monotonic() < deadline


def test_slow_answer_does_not_time_out_the_client(tables: FakeTables) -> None:
    """The head of a second request may stay incomplete while the first is being answered."""
    tables.gate = threading.Event()
    with start_server(tables=tables, bounds=IMPATIENT) as url, connect(url) as client:
        client.send(http_request() + http_request()[:60])
        assert tables.entered.wait(20)
        with connect(url) as other:
            # Twice as long as the timers of the first connection.
            assert other.is_closed_by_the_server()
        with connect(url) as other:
            assert other.is_closed_by_the_server()
        tables.gate.set()
        assert client.reply().status == 200


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
        b"GET\r\n\r\n",
        b"\x00" * 50,
        b"POST / HTTP/9.9\r\n\r\n",
        b"{}\r\n\r\n",
    ],
)
def test_server_survives_invalid_http(shared_url: str, garbage: bytes) -> None:
    with connect(shared_url) as client:
        assert client.send(garbage).reply().status == 400
        assert client.is_closed_by_the_server()
    assert ask(shared_url, http_request()).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Length": "x"},
        {"Content-Length": "-1"},
        {"Content-Length": "99999999999999999999999999"},
        {"Content-Length": "2", "Transfer-Encoding": "chunked"},
        {"Transfer-Encoding": "chunked", "X-Body": "not in chunks"},
    ],
)
def test_refuses_a_body_with_an_invalid_or_contradictory_length(
    shared_url: str, headers: dict[str, str]
) -> None:
    """Answer 400 or 413 to a Content-Length that is invalid, enormous or contradicted, and to a malformed
    chunk.
    """
    assert ask(shared_url, http_request(b"{}\r\n\r\n", headers=USUAL | headers)).status in {400, 413}


def test_disconnecting_client_does_not_affect_others(shared_url: str) -> None:
    for cut in (1, 30, 200, len(http_request()) - 1):
        with connect(shared_url) as client:
            client.send(http_request()[:cut])
    assert ask(shared_url, http_request()).status == 200


def test_pipelined_requests_are_answered_in_order(tables: FakeTables) -> None:
    with start_server(tables=tables) as url, connect(url) as client:
        client.send(b"".join(http_request(b'{"Limit":%d}' % number) for number in range(1, 21)))
        assert all(client.reply().json == OK for _ in range(20))
    assert tables.seen == [ListTables(limit=number) for number in range(1, 21)]


def test_garbage_after_a_request_does_not_lose_its_answer(tables: FakeTables) -> None:
    tables.gate = threading.Event()
    with start_server(tables=tables) as url, connect(url) as client:
        client.send(http_request() + b"\x00nonsense\r\n\r\n")
        assert tables.entered.wait(20)
        tables.gate.set()
        assert client.reply().status == 200
        assert client.is_closed_by_the_server()


def test_protocol_upgrade_is_refused_with_a_message(shared_url: str) -> None:
    offer = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAMAAABkAAQ"}
    with connect(shared_url) as client:
        reply = client.send(http_request(headers=USUAL | offer)).reply()
        assert (reply.status, "HTTP/1.1" in reply.json["message"]) == (400, True)
        assert client.is_closed_by_the_server()


def test_http_1_0_is_answered_and_closed(shared_url: str) -> None:
    with connect(shared_url) as client:
        assert client.send(http_request().replace(b"HTTP/1.1", b"HTTP/1.0")).reply().json == OK
        assert client.is_closed_by_the_server()


def test_excess_clients_are_refused() -> None:
    bounds = Bounds(max_connections=2)
    with (
        start_server(tables=FakeTables(), bounds=bounds) as url,
        connect(url) as first,
        connect(url) as second,
    ):
        assert first.send(http_request()).reply().status == 200
        assert second.send(http_request()).reply().status == 200
        with connect(url) as third:
            assert third.reply().status == 503
            assert third.is_closed_by_the_server()
        assert first.send(http_request()).reply().status == 200


# --- addresses and data -------------------------------------------------------------------------------------


def refusal(**changed: Any) -> str:
    """Start the server with an unusable setting and return the message of its one-line `SettingsError`."""
    settings: dict[str, Any] = {
        "host": "127.0.0.1",
        "port": 0,
        "data": None,
        "memory": True,
        "credentials": None,
    }
    with pytest.raises(SettingsError) as refused:
        serve(**settings | changed)
    assert "\n" not in refused.value.message
    return refused.value.message


@pytest.mark.parametrize("credentials", [None, {}])
def test_listens_only_locally_without_credentials(credentials: dict[str, str] | None) -> None:
    message = refusal(host="0.0.0.0", credentials=credentials)
    assert message.startswith("0.0.0.0 can be reached from other machines")
    assert "HOLDFAST_ACCESS_KEY_ID and HOLDFAST_SECRET_ACCESS_KEY" in message


def test_listens_elsewhere_with_credentials() -> None:
    assert refusal(host="192.0.2.1", credentials={"AKID": "secret"}).startswith(
        "Cannot listen on 192.0.2.1: "
    )


def test_missing_data_folder_error_has_a_remedy(tmp_path: Path) -> None:
    message = refusal(data=tmp_path / "none", memory=False)
    assert message == (
        f"Invalid data folder {tmp_path}/none: it does not exist. Create it (mkdir -p {tmp_path}/none) "
        "or pass another with --data."
    )


def test_reports_a_data_folder_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "is not a folder" in refusal(data=tmp_path / "file", memory=False)


def test_reports_neither_folder_nor_memory() -> None:
    assert "--data DIR, or --memory" in refusal(memory=False)


def test_data_survives_a_server_restart(tmp_path: Path) -> None:
    with start_server(data=tmp_path) as url:
        make_boto_client(url).create_table(
            TableName="orders",
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
    assert (tmp_path / "tables.db").exists()
    with start_server(data=tmp_path) as url:
        described = make_boto_client(url).describe_table(TableName="orders")["Table"]
    assert described["TableArn"] == "arn:aws:dynamodb:eu-west-1:000000000000:table/orders"


# --- shutdown -----------------------------------------------------------------------------------------------

# The process serves tables that answer when a line arrives on stdin, and reports events on stdout.
PROCESS = """
import asyncio, contextlib, pathlib, sys
import holdfast.wire.http.server as server
from holdfast.operations.tables.list_tables import ListTablesResult

class Tables:
    async def run(self, operation):
        print("entered", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
        return ListTablesResult(names=("orders",))

@contextlib.contextmanager
def opened(path, faults=None):
    yield Tables()
    print("closed", path, flush=True)

server._open_store = opened
folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else None
server.serve(host="127.0.0.1", port=0, data=folder, memory=folder is None, credentials=None)
"""


@contextlib.contextmanager
def run_server_process(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Run the server in a child process, killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROCESS, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def read_line(process: subprocess.Popen[str]) -> str:
    """Return the next line that the child process printed."""
    assert process.stdout is not None
    return process.stdout.readline().rstrip()


def release(process: subprocess.Popen[str]) -> None:
    """Let the child process answer the request that waits for a line on its stdin."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def test_prints_address_and_data_location_in_one_line(tmp_path: Path) -> None:
    with run_server_process(str(tmp_path)) as process:
        line = read_line(process)
    assert re.fullmatch(
        rf"Holdfast answers DynamoDB at http://127\.0\.0\.1:\d+ \(data in {tmp_path}/tables\.db\)", line
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_stops_the_server_after_accepted_requests(number: signal.Signals) -> None:
    with run_server_process() as process:
        line = read_line(process)
        assert line.endswith("(in memory, gone when it stops)")
        url = line.split()[4]
        with connect(url) as client, connect(url) as idle:
            client.send(http_request())
            assert read_line(process) == "entered"
            process.send_signal(number)
            assert idle.is_closed_by_the_server()
            with pytest.raises(ConnectionRefusedError):
                Client(url)
            release(process)
            reply = client.reply()
            assert (reply.json, reply.headers["connection"]) == (OK, "close")
        assert read_line(process) == "closed None"
        assert process.wait(20) == 0


def test_second_signal_stops_at_once() -> None:
    with run_server_process() as process:
        url = read_line(process).split()[4]
        with connect(url) as client, connect(url) as idle:
            client.send(http_request())
            assert read_line(process) == "entered"
            process.send_signal(signal.SIGTERM)
            assert idle.is_closed_by_the_server()
            process.send_signal(signal.SIGTERM)
            # Without a line on stdin, the answer is abandoned.
            assert client.reply().status == 503
            release(process)
        assert read_line(process) == "closed None"
        assert process.wait(20) == 0


def test_shutdown_grace_period_is_bounded(tables: FakeTables) -> None:
    tables.never_answers = True
    with start_server(tables=tables, bounds=Bounds(grace_s=0.05)) as url:
        client = Client(url).send(http_request())
        assert tables.entered.wait(20)
    with contextlib.closing(client):
        assert client.reply().status == 503
