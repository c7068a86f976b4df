"""The server over real sockets: the protocol's envelope, clients that are slow, rude or broken, and its end."""

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
from holdfast.wire.server import Bounds, _listen, running_server, serve

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
    """Knows one table. `failure` is raised instead; `gate` holds an answer back until it is set."""

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
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    """A socket that sends what it is told and reads one answer at a time."""

    def __init__(self, url: str) -> None:
        host, _, port = url.removeprefix("http://").rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=20)
        self._file = self._socket.makefile("rb")

    def send(self, data: bytes) -> Client:
        self._socket.sendall(data)
        return self

    def reply(self) -> Reply:
        status = int(self._file.readline().split()[1])
        headers = {}
        while line := self._file.readline().strip():
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        return Reply(status, headers, self._file.read(int(headers.get("content-length", 0))))

    def is_closed_by_the_server(self) -> bool:
        try:
            return self._file.read(1) == b""
        except ConnectionResetError:
            return True

    def close(self) -> None:
        self._file.close()
        self._socket.close()


def http(
    body: bytes = b"{}", *, method: str = "POST", path: str = "/", headers: dict[str, str] | None = None
) -> bytes:
    sent = USUAL if headers is None else headers
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in sent.items())]
    if not {"content-length", "transfer-encoding"} & {name.lower() for name in sent}:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


def without(name: str) -> dict[str, str]:
    return {known: value for known, value in USUAL.items() if known != name}


@contextlib.contextmanager
def connected(url: str) -> Iterator[Client]:
    client = Client(url)
    try:
        yield client
    finally:
        client.close()


def ask(url: str, request: bytes) -> Reply:
    with connected(url) as client:
        return client.send(request).reply()


def is_let_in(url: str) -> bool:
    try:
        return ask(url, http()).status == 200
    except (ConnectionError, IndexError):
        return False


@pytest.fixture
def tables() -> FakeTables:
    return FakeTables()


@pytest.fixture(scope="module")
def shared_url() -> Iterator[str]:
    """For tests that only look at refusals and plain answers."""
    with running_server(tables=FakeTables()) as url:
        yield url


# --- an operation -------------------------------------------------------------------------------------------


def test_an_operation_is_answered_with_the_services_headers(shared_url: str) -> None:
    reply = ask(shared_url, http())
    assert (reply.status, reply.json) == (200, OK)
    assert re.fullmatch("[0-9A-Z]{52}", reply.headers["x-amzn-requestid"])
    assert reply.headers["x-amz-crc32"] == str(zlib.crc32(reply.body))
    assert reply.headers["content-type"] == JSON
    assert reply.headers["content-length"] == str(len(reply.body))


def test_every_request_has_an_id_of_its_own(shared_url: str) -> None:
    with connected(shared_url) as client:
        ids = {client.send(http()).reply().headers["x-amzn-requestid"] for _ in range(20)}
    assert len(ids) == 20


def test_boto3_works_unmodified(shared_url: str) -> None:
    assert client_of(shared_url).list_tables()["TableNames"] == ["orders"]


def test_plain_json_is_answered_with_plain_json(shared_url: str) -> None:
    reply = ask(shared_url, http(headers=USUAL | {"Content-Type": " application/json ; charset=x"}))
    assert (reply.status, reply.headers["content-type"]) == (200, "application/json")


def test_a_chunked_body_is_read_to_its_end(tables: FakeTables) -> None:
    with running_server(tables=tables) as url:
        chunks = b'8\r\n{"Limit"\r\n3\r\n:7}\r\n0\r\n\r\n'
        assert ask(url, http(chunks, headers=USUAL | {"Transfer-Encoding": "chunked"})).json == OK
    assert tables.seen == [ListTables(limit=7)]


def test_a_body_in_single_bytes_is_put_together(shared_url: str) -> None:
    with connected(shared_url) as client:
        for byte in http(b'{"Limit":5}'):
            client.send(bytes([byte]))
        assert client.reply().json == OK


def test_a_client_that_waits_for_leave_to_send_gets_it(shared_url: str) -> None:
    with connected(shared_url) as client:
        client.send(http(b"", headers=USUAL | {"Expect": "100-continue", "Content-Length": "2"}))
        assert client.reply().status == 100
        assert client.send(b"{}").reply().json == OK


def test_a_compressed_body_is_unpacked_in_all_its_parts(tables: FakeTables) -> None:
    packed = gzip.compress(b'{"Limit"') + gzip.compress(b":7}")
    with running_server(tables=tables) as url:
        assert ask(url, http(packed, headers=USUAL | {"Content-Encoding": "gzip"})).json == OK
    assert tables.seen == [ListTables(limit=7)]


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", b"{}"),
        ("gzip", b""),
        ("gzip", gzip.compress(b"{}")[:-1]),
        ("gzip", gzip.compress(b"{}") + b"junk"),
        ("br", b"{}"),
    ],
    ids=["not packed", "empty", "cut short", "junk behind", "another encoding"],
)
def test_a_body_that_cannot_be_unpacked_is_the_clients_mistake(
    tables: FakeTables, encoding: str, body: bytes
) -> None:
    with running_server(tables=tables) as url:
        reply = ask(url, http(body, headers=USUAL | {"Content-Encoding": encoding}))
    assert (reply.status, reply.json["__type"].partition("#")[2]) == (400, "SerializationException")
    assert tables.seen == []


# --- what is refused before an operation is known -----------------------------------------------------------


def test_a_get_of_the_root_tells_that_all_is_well(shared_url: str) -> None:
    reply = ask(shared_url, http(b"", method="GET", headers={"Host": "dynamodb.us-east-1.amazonaws.com"}))
    assert (reply.status, reply.body) == (200, b"healthy: dynamodb.us-east-1.amazonaws.com ")
    assert reply.headers["x-amz-crc32"] == "3128867991"


@pytest.mark.parametrize(
    "request_bytes",
    [
        http(b"", method="GET", path="/health"),
        http(path="/other"),
        http(method="PUT"),
        http(b"", method="DELETE"),
        http(b"", method="OPTIONS", headers=USUAL | {"Origin": "http://example.com"}),
        http(b"hi", headers=without("Content-Type")),
        http(b"hi", headers=USUAL | {"Content-Type": "application/x-amz-json-1.1"}),
        http(b"hi", headers=USUAL | {"Content-Type": "application/jsonx"}),
    ],
    ids=["path of GET", "path", "PUT", "DELETE", "preflight", "no type", "json 1.1", "odd type"],
)
def test_what_is_no_operation_is_an_unknown_page(shared_url: str, request_bytes: bytes) -> None:
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
        (http(headers=without("X-Amz-Target")), UNKNOWN),
        (http(headers=USUAL | {"X-Amz-Target": "DynamoDB_20120810.ListTable"}), UNKNOWN),
        (http(headers=USUAL | {"X-Amz-Target": "DynamoDBStreams_20120810.ListTables"}), UNKNOWN),
        (http(b"hi"), MALFORMED),
        (http(b""), MALFORMED),
        (http(b"[" * 100_000), MALFORMED),
        (http(headers=without("Authorization")), MISSING),
        (http(headers=USUAL | {"Authorization": "AWS4"}), MISSING),
        (http(b"hi", headers={"Content-Type": JSON}), MALFORMED),
        (http(headers={"Content-Type": JSON}), UNKNOWN),
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
def test_a_request_without_an_operation_is_refused_in_the_services_order(
    shared_url: str, request_bytes: bytes, answer: dict[str, str]
) -> None:
    reply = ask(shared_url, request_bytes)
    assert (reply.status, reply.json) == (400, answer)


def test_an_incomplete_signature_is_told_what_it_lacks(shared_url: str) -> None:
    reply = ask(shared_url, http(headers=USUAL | {"Authorization": "AWS4- Signature=b, Credential=a"}))
    assert reply.json == {
        "__type": "com.amazon.coral.service#IncompleteSignatureException",
        "message": "Authorization header requires 'SignedHeaders' parameter. "
        "Authorization=AWS4- Signature=b, Credential=a",
    }


def test_a_known_credential_does_not_excuse_a_missing_signature(shared_url: str) -> None:
    with connected(shared_url) as client:
        assert client.send(http()).reply().status == 200
        unsigned = AUTHORIZATION.partition(", Signature=")[0]
        assert client.send(http(headers=USUAL | {"Authorization": unsigned})).reply().status == 400


def test_an_unexpected_failure_is_logged_under_its_id_and_told_without_its_inside(
    tables: FakeTables, caplog: pytest.LogCaptureFixture
) -> None:
    tables.failure = ZeroDivisionError("the inside")
    with running_server(tables=tables) as url:
        reply = ask(url, http())
    assert (reply.status, reply.json["__type"].partition("#")[2]) == (500, "InternalServerError")
    assert b"inside" not in reply.body
    assert reply.headers["x-amzn-requestid"] in caplog.text
    assert "ZeroDivisionError: the inside" in caplog.text


# --- signatures ---------------------------------------------------------------------------------------------


def client_of(url: str, key: str = "AKID", secret: str = "secret") -> Any:
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
    with running_server(tables=FakeTables(), credentials={"AKID": "secret"}) as url:
        yield url


def test_the_right_secret_is_let_in(guarded_url: str) -> None:
    assert client_of(guarded_url).list_tables()["TableNames"] == ["orders"]


@pytest.mark.parametrize(
    ("key", "secret", "code"),
    [("AKID", "guess", "InvalidSignatureException"), ("OTHER", "secret", "UnrecognizedClientException")],
)
def test_anyone_else_is_refused(guarded_url: str, key: str, secret: str, code: str) -> None:
    with pytest.raises(ClientError) as refused:
        client_of(guarded_url, key, secret).list_tables()
    assert refused.value.response["Error"]["Code"] == code


def test_pages_of_other_origins_are_let_in_where_signatures_are_verified(guarded_url: str) -> None:
    asked = {
        "Origin": "http://example.com",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "x-amz-target",
    }
    reply = ask(guarded_url, http(b"", method="OPTIONS", headers=asked))
    assert (reply.status, reply.body) == (200, b"")
    assert reply.headers["access-control-allow-origin"] == "*"
    assert reply.headers["access-control-allow-methods"] == "POST"
    assert reply.headers["access-control-allow-headers"] == "x-amz-target"
    assert reply.headers["access-control-max-age"] == "172800"


def test_without_credentials_pages_of_other_origins_are_kept_out(shared_url: str) -> None:
    reply = ask(shared_url, http(headers=USUAL | {"Origin": "http://example.com"}))
    assert "access-control-allow-origin" not in reply.headers


# --- by which name the server is called ---------------------------------------------------------------------


@pytest.mark.parametrize("host", ["localhost:8000", "127.0.0.1", "[::1]:8000", "a.localhost"])
def test_without_credentials_names_of_this_machine_are_answered(shared_url: str, host: str) -> None:
    with connected(shared_url) as client:
        for _ in range(2):
            assert client.send(http(headers=USUAL | {"Host": host})).reply().json == OK


@pytest.mark.parametrize("method", ["POST", "GET", "OPTIONS"])
def test_without_credentials_a_name_that_a_page_can_turn_to_us_is_refused(
    tables: FakeTables, method: str
) -> None:
    with running_server(tables=tables) as url:
        reply = ask(url, http(method=method, headers=USUAL | {"Host": "evil.example:8000"}))
    assert reply.status == 403
    assert reply.json["__type"] == "com.amazon.coral.service#AccessDeniedException"
    assert "configure credentials" in reply.json["message"]
    assert "HOLDFAST_ACCESS_KEY_ID" in reply.json["message"]
    assert tables.seen == []


def test_a_client_that_names_no_host_is_no_browser_and_is_answered(shared_url: str) -> None:
    request = http(headers=without("Host")).replace(b"HTTP/1.1", b"HTTP/1.0")
    assert ask(shared_url, request).json == OK


def test_many_names_of_this_machine_are_answered(shared_url: str) -> None:
    with connected(shared_url) as client:
        for number in range(200):
            headers = USUAL | {"Host": f"{number}.localhost"}
            assert client.send(http(headers=headers)).reply().status == 200


def test_with_credentials_any_name_is_answered(guarded_url: str) -> None:
    reply = ask(guarded_url, http(b"", method="GET", headers={"Host": "tables.example"}))
    assert (reply.status, reply.body) == (200, b"healthy: tables.example ")


# --- large requests -----------------------------------------------------------------------------------------

SMALL = Bounds(body_bytes_max=1000)


def test_a_body_said_to_be_too_large_is_refused_and_the_client_can_still_read_why(tables: FakeTables) -> None:
    with running_server(tables=tables, bounds=SMALL) as url, connected(url) as client:
        reply = client.send(http(b" " * 20_000_000)).reply()
        assert (reply.status, reply.headers["connection"]) == (413, "close")
        assert reply.json["__type"].endswith("#RequestTooLargeException")
        assert client.is_closed_by_the_server()
    assert tables.seen == []


def test_a_body_that_turns_out_too_large_is_refused(tables: FakeTables) -> None:
    chunk = b"190\r\n" + b" " * 400 + b"\r\n"
    with running_server(tables=tables, bounds=SMALL) as url, connected(url) as client:
        client.send(http(chunk * 3 + b"0\r\n\r\n", headers=USUAL | {"Transfer-Encoding": "chunked"}))
        assert client.reply().status == 413
    assert tables.seen == []


def test_a_small_body_that_unpacks_too_large_is_refused(tables: FakeTables) -> None:
    packed = gzip.compress(b"{}" + b" " * 100_000)
    assert len(packed) < SMALL.body_bytes_max
    with running_server(tables=tables, bounds=SMALL) as url:
        assert ask(url, http(packed, headers=USUAL | {"Content-Encoding": "gzip"})).status == 413


def test_a_client_that_waits_for_leave_to_send_too_much_does_not_get_it() -> None:
    with running_server(tables=FakeTables(), bounds=SMALL) as url, connected(url) as client:
        client.send(http(b"", headers=USUAL | {"Expect": "100-continue", "Content-Length": "2000"}))
        assert client.reply().status == 413
        assert client.is_closed_by_the_server()


# More than one read of a socket brings, so that it comes in pieces.
LARGE = b"{}" + b" " * 999_998
ROOM_FOR_ONE = Bounds(bodies_bytes_max=1_500_000)


def wait_until_a_large_body_is_answered(url: str, status: int) -> Reply:
    deadline = time.monotonic() + 20
    while (reply := ask(url, http(LARGE))).status != status:
        assert time.monotonic() < deadline
    return reply


def test_large_bodies_that_do_not_end_leave_no_room_for_more_but_for_small_ones(tables: FakeTables) -> None:
    with running_server(tables=tables, bounds=ROOM_FOR_ONE) as url, connected(url) as client:
        assert ask(url, http(LARGE)).status == 200
        client.send(http(LARGE)[:-1000])
        reply = wait_until_a_large_body_is_answered(url, 503)
        assert reply.json["__type"] == "com.amazon.coral.service#ServiceUnavailable"
        assert reply.headers["connection"] == "close"
        assert ask(url, http()).status == 200
        with connected(url) as slow:
            slow.send(http(b'{"Limit":5}')[:-1])
            assert slow.send(b"}").reply().status == 200

        assert client.send(LARGE[-1000:]).reply().status == 200
        assert ask(url, http(LARGE)).status == 200


def test_a_large_request_that_is_being_answered_still_takes_its_room(tables: FakeTables) -> None:
    tables.gate = threading.Event()
    with running_server(tables=tables, bounds=ROOM_FOR_ONE) as url, connected(url) as client:
        client.send(http(LARGE))
        assert tables.entered.wait(20)
        try:
            assert ask(url, http(LARGE)).status == 503
        finally:
            tables.gate.set()
        assert client.reply().status == 200
        assert ask(url, http(LARGE)).status == 200


def test_the_room_of_a_client_that_leaves_is_free_again(tables: FakeTables) -> None:
    with running_server(tables=tables, bounds=ROOM_FOR_ONE) as url:
        with connected(url) as client:
            client.send(http(LARGE)[:-1000])
            wait_until_a_large_body_is_answered(url, 503)
        wait_until_a_large_body_is_answered(url, 200)


def test_a_client_without_room_for_its_body_can_read_why_and_is_closed(tables: FakeTables) -> None:
    bounds = Bounds(bodies_bytes_max=500_000)
    with running_server(tables=tables, bounds=bounds) as url, connected(url) as client:
        assert client.send(http(LARGE)).reply().status == 503
        assert client.is_closed_by_the_server()
    assert tables.seen == []


def test_an_endless_head_is_refused() -> None:
    with (
        running_server(tables=FakeTables(), bounds=Bounds(head_bytes_max=2000)) as url,
        connected(url) as client,
    ):
        client.send(b"POST / HTTP/1.1\r\nX-Filler: " + b"a" * 5000)
        assert client.reply().status == 431
        assert client.is_closed_by_the_server()


def test_endless_trailers_are_refused() -> None:
    with running_server(tables=FakeTables(), bounds=Bounds(headers_max=50)) as url, connected(url) as client:
        client.send(http(b"2\r\n{}\r\n0\r\n", headers=USUAL | {"Transfer-Encoding": "chunked"}))
        client.send(b"X-Trailer: 1\r\n" * 100)
        assert client.reply().status == 431


# --- slow, silent and broken clients ------------------------------------------------------------------------

# Short, yet longer than a busy machine may keep a test from sending what it has just begun to send.
IMPATIENT = Bounds(head_timeout_s=0.5, body_timeout_s=0.1, keep_alive_s=0.1)


@pytest.fixture(scope="module")
def impatient_url() -> Iterator[str]:
    with running_server(tables=FakeTables(), bounds=IMPATIENT) as url:
        yield url


def test_a_connection_that_never_speaks_is_closed(impatient_url: str) -> None:
    with connected(impatient_url) as client:
        assert client.is_closed_by_the_server()


def test_a_head_that_never_ends_is_given_up(impatient_url: str) -> None:
    with connected(impatient_url) as client:
        assert client.send(http()[:40]).reply().status == 408
        assert client.is_closed_by_the_server()


def test_a_body_that_never_ends_is_given_up(impatient_url: str) -> None:
    with connected(impatient_url) as client:
        reply = client.send(http()[:-1]).reply()
        assert (reply.status, reply.json["__type"].partition("#")[2]) == (408, "RequestTimeoutException")
        assert client.is_closed_by_the_server()


def test_a_second_request_that_never_ends_is_given_up(impatient_url: str) -> None:
    with connected(impatient_url) as client:
        assert client.send(http() + http()[:60]).reply().status == 200
        assert client.reply().status == 408


def test_a_connection_without_a_further_request_is_closed(impatient_url: str) -> None:
    with connected(impatient_url) as client:
        assert client.send(http()).reply().status == 200
        assert client.is_closed_by_the_server()


def test_blank_lines_do_not_keep_a_connection(impatient_url: str) -> None:
    with connected(impatient_url) as client:
        assert client.send(http()).reply().status == 200
        client.send(b"\r\n")
        assert client.is_closed_by_the_server()


def test_a_rest_of_a_refused_body_that_never_comes_is_given_up() -> None:
    bounds = Bounds(body_bytes_max=1000, body_timeout_s=0.05)
    with running_server(tables=FakeTables(), bounds=bounds) as url, connected(url) as client:
        assert client.send(http(b"", headers=USUAL | {"Content-Length": "2000"})).reply().status == 413
        assert client.is_closed_by_the_server()


def test_a_client_that_does_not_read_its_answer_is_cut_off(tables: FakeTables) -> None:
    tables.names = ("a" * 1_000_000,) * 40  # more than the machine buffers for a connection
    bounds = Bounds(write_timeout_s=0.05, connections_max=1)
    with running_server(tables=tables, bounds=bounds) as url, connected(url) as client:
        client.send(http())
        assert tables.entered.wait(20)
        tables.names = ("orders",)
        # There is room for one connection only: another is let in when the first was cut off.
        deadline = time.monotonic() + 20
        while not is_let_in(url):
            assert time.monotonic() < deadline


def test_a_slow_answer_is_not_the_clients_fault(tables: FakeTables) -> None:
    """The head of a second request may stay half while the first is being answered."""
    tables.gate = threading.Event()
    with running_server(tables=tables, bounds=IMPATIENT) as url, connected(url) as client:
        client.send(http() + http()[:60])
        assert tables.entered.wait(20)
        with connected(url) as other:
            # As long as the timers of the first connection take, twice.
            assert other.is_closed_by_the_server()
        with connected(url) as other:
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
def test_what_is_no_http_is_refused_and_the_server_lives_on(shared_url: str, garbage: bytes) -> None:
    with connected(shared_url) as client:
        assert client.send(garbage).reply().status == 400
        assert client.is_closed_by_the_server()
    assert ask(shared_url, http()).status == 200


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
def test_a_body_of_unclear_length_is_refused(shared_url: str, headers: dict[str, str]) -> None:
    assert ask(shared_url, http(b"{}\r\n\r\n", headers=USUAL | headers)).status in {400, 413}


def test_a_client_that_leaves_in_the_middle_disturbs_nobody(shared_url: str) -> None:
    for cut in (1, 30, 200, len(http()) - 1):
        with connected(shared_url) as client:
            client.send(http()[:cut])
    assert ask(shared_url, http()).status == 200


def test_requests_sent_ahead_are_answered_in_turn(tables: FakeTables) -> None:
    with running_server(tables=tables) as url, connected(url) as client:
        client.send(b"".join(http(b'{"Limit":%d}' % number) for number in range(1, 21)))
        assert all(client.reply().json == OK for _ in range(20))
    assert tables.seen == [ListTables(limit=number) for number in range(1, 21)]


def test_nonsense_behind_a_request_does_not_take_its_answer(tables: FakeTables) -> None:
    tables.gate = threading.Event()
    with running_server(tables=tables) as url, connected(url) as client:
        client.send(http() + b"\x00nonsense\r\n\r\n")
        assert tables.entered.wait(20)
        tables.gate.set()
        assert client.reply().status == 200
        assert client.is_closed_by_the_server()


def test_an_upgrade_to_another_protocol_is_refused_in_words(shared_url: str) -> None:
    offer = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAMAAABkAAQ"}
    with connected(shared_url) as client:
        reply = client.send(http(headers=USUAL | offer)).reply()
        assert (reply.status, "HTTP/1.1" in reply.json["message"]) == (400, True)
        assert client.is_closed_by_the_server()


def test_http_1_0_is_answered_and_closed(shared_url: str) -> None:
    with connected(shared_url) as client:
        assert client.send(http().replace(b"HTTP/1.1", b"HTTP/1.0")).reply().json == OK
        assert client.is_closed_by_the_server()


def test_more_clients_than_the_server_takes_are_refused() -> None:
    bounds = Bounds(connections_max=2)
    with (
        running_server(tables=FakeTables(), bounds=bounds) as url,
        connected(url) as first,
        connected(url) as second,
    ):
        assert first.send(http()).reply().status == 200
        assert second.send(http()).reply().status == 200
        with connected(url) as third:
            assert third.reply().status == 503
            assert third.is_closed_by_the_server()
        assert first.send(http()).reply().status == 200


# --- where it listens and what it serves --------------------------------------------------------------------


def refusal(**changed: Any) -> str:
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


def test_a_port_in_use_is_told_with_a_way_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = refusal(port=port)
    assert message.startswith(f"Port {port} on 127.0.0.1 is in use")
    assert "--port" in message


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_without_credentials_only_this_machine_may_call(host: str) -> None:
    message = refusal(host=host)
    assert message.startswith(f"{host} can be reached from other machines")
    assert "HOLDFAST_ACCESS_KEY_ID and HOLDFAST_SECRET_ACCESS_KEY" in message


def test_no_credentials_at_all_are_like_none() -> None:
    assert "can be reached from other machines" in refusal(host="0.0.0.0", credentials={})


def test_an_address_of_another_machine_cannot_be_listened_on() -> None:
    assert refusal(host="192.0.2.1", credentials={"AKID": "secret"}).startswith(
        "Cannot listen on 192.0.2.1: "
    )


@pytest.mark.parametrize("host", ["no such host", "999.1.1.1", "a" * 300, "\ud800"])
def test_a_host_that_is_none_is_told(host: str) -> None:
    assert "is not an address this machine knows" in refusal(host=host)


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_port_that_is_none_is_told(port: int) -> None:
    assert refusal(port=port).startswith(f"There is no port {port}")


def test_a_missing_data_folder_is_told_with_a_way_out(tmp_path: Path) -> None:
    message = refusal(data=tmp_path / "none", memory=False)
    assert message == (
        f"The data folder {tmp_path}/none does not exist: make it (mkdir -p {tmp_path}/none) "
        "or name another with --data."
    )


def test_a_data_folder_that_is_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "is not a folder" in refusal(data=tmp_path / "file", memory=False)


def test_neither_folder_nor_memory_is_told() -> None:
    assert "--data DIR, or --memory" in refusal(memory=False)


def test_the_name_of_this_machine_is_listened_on_under_one_port() -> None:
    sockets = _listen("localhost", 0, may_be_remote=False)
    assert len({each.getsockname()[1] for each in sockets}) == 1
    for each in sockets:
        each.close()


def test_what_was_written_is_there_when_the_server_comes_back(tmp_path: Path) -> None:
    with running_server(data=tmp_path) as url:
        client_of(url).create_table(
            TableName="orders",
            KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
    assert (tmp_path / "tables.db").exists()
    with running_server(data=tmp_path) as url:
        described = client_of(url).describe_table(TableName="orders")["Table"]
    assert described["TableArn"] == "arn:aws:dynamodb:eu-west-1:000000000000:table/orders"


# --- its end ------------------------------------------------------------------------------------------------

# The process serves tables that answer when a line comes on its stdin, and tells on stdout what happens.
PROCESS = """
import asyncio, contextlib, pathlib, sys
import holdfast.wire.server as server
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

server._opened = opened
folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else None
server.serve(host="127.0.0.1", port=0, data=folder, memory=folder is None, credentials=None)
"""


@contextlib.contextmanager
def server_process(*arguments: str) -> Iterator[subprocess.Popen[str]]:
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


def line_of(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().rstrip()


def release(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def test_one_line_tells_the_address_and_where_the_data_is(tmp_path: Path) -> None:
    with server_process(str(tmp_path)) as process:
        line = line_of(process)
    assert re.fullmatch(
        rf"Holdfast answers DynamoDB at http://127\.0\.0\.1:\d+ \(data in {tmp_path}/tables\.db\)", line
    )


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_server_after_what_it_accepted(number: signal.Signals) -> None:
    with server_process() as process:
        line = line_of(process)
        assert line.endswith("(in memory, gone when it stops)")
        url = line.split()[4]
        with connected(url) as client, connected(url) as idle:
            client.send(http())
            assert line_of(process) == "entered"
            process.send_signal(number)
            assert idle.is_closed_by_the_server()
            with pytest.raises(ConnectionRefusedError):
                Client(url)
            release(process)
            reply = client.reply()
            assert (reply.json, reply.headers["connection"]) == (OK, "close")
        assert line_of(process) == "closed None"
        assert process.wait(20) == 0


def test_a_second_signal_does_not_wait() -> None:
    with server_process() as process:
        url = line_of(process).split()[4]
        with connected(url) as client, connected(url) as idle:
            client.send(http())
            assert line_of(process) == "entered"
            process.send_signal(signal.SIGTERM)
            assert idle.is_closed_by_the_server()
            process.send_signal(signal.SIGTERM)
            # Without a line on stdin: the answer is given up.
            assert client.reply().status == 503
            release(process)
        assert line_of(process) == "closed None"
        assert process.wait(20) == 0


def test_the_grace_of_a_shutdown_has_an_end(tables: FakeTables) -> None:
    tables.never_answers = True
    with running_server(tables=tables, bounds=Bounds(grace_s=0.05)) as url:
        client = Client(url).send(http())
        assert tables.entered.wait(20)
    with contextlib.closing(client):
        assert client.reply().status == 503
