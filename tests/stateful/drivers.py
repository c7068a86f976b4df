"""Drivers that send the protocol's requests to the engine: in process, over HTTP, or to several processes.

A driver takes requests of the protocol (binaries as bytes) and returns answers of the protocol, or raises
`Refused`. Time is a run clock in a file, moved by the driver; `settle` returns when no background work is
left.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import Any, Protocol

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from holdfast.core.clock import RunClock
from holdfast.core.errors import HoldfastError
from holdfast.stores.tables.embedded import EmbeddedTables, open_tables
from holdfast.wire.arns import DEFAULT_LOCATION
from holdfast.wire.dispatch import decode, encode, encode_error
from holdfast.wire.http.server import start_server

from .steps import START

ROOT = Path(__file__).parents[2]
PROCESSES = 3


class Refused(Exception):
    """The engine's refusal: code, message, and the members that it has in addition to these."""

    def __init__(self, code: str, message: str, more: dict[str, Any]) -> None:
        super().__init__(code, message, more)
        self.code, self.message, self.more = code, message, more


class Driver(Protocol):
    """The calls that a comparison makes; `advance` moves the clock and then settles."""

    def call(self, operation: str, request: dict[str, Any]) -> dict[str, Any]: ...

    def settle(self) -> None: ...

    def advance(self, seconds: float) -> None: ...


def wait_until_settled(tables: EmbeddedTables) -> None:
    """Wait until no background work is left, even if another process does it."""
    worker = tables._worker
    while worker._has_work():
        tables.sweep()
        # Another process cannot be awaited, only polled.
        time.sleep(0.001)


def run_request(tables: EmbeddedTables, operation: str, body: bytes) -> dict[str, Any]:
    """Run one request through the wire's codec and the engine, without HTTP.

    Return `{"answer": …}` or `{"refused": …}`.
    """
    try:
        codec, decoded = decode(f"DynamoDB_20120810.{operation}", body)
        return {"answer": json.loads(encode(codec, decoded, tables.run_blocking(decoded), DEFAULT_LOCATION))}
    except HoldfastError as error:
        return {"refused": json.loads(encode_error(error)[1])}


# --- drivers ------------------------------------------------------------------------------------------------


class InProcess:
    """Driver that calls the engine in this process through the wire's codec."""

    def __init__(self, tables: EmbeddedTables, clock: RunClock) -> None:
        self.tables, self._clock = tables, clock

    def call(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        return _parse_reply(run_request(self.tables, operation, json.dumps(to_json_value(request)).encode()))

    def settle(self) -> None:
        wait_until_settled(self.tables)

    def advance(self, seconds: float) -> None:
        self._clock.advance(seconds)
        self.settle()


class OverHttp:
    """Driver that calls the engine with boto3 over HTTP, without retries."""

    def __init__(self, url: str, tables: EmbeddedTables, clock: RunClock) -> None:
        self._tables, self._clock = tables, clock
        self._client = boto3.client(
            "dynamodb",
            endpoint_url=url,
            region_name="us-east-1",
            config=Config(retries={"total_max_attempts": 1}),
        )

    def call(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = self._client._make_api_call(operation, request)
        except ClientError as error:
            response: Any = error.response
            more = {name: response[name] for name in ("Item", "CancellationReasons") if name in response}
            raise Refused(response["Error"]["Code"], response["Error"]["Message"], more) from None
        del answer["ResponseMetadata"]
        return answer

    def settle(self) -> None:
        wait_until_settled(self._tables)

    def advance(self, seconds: float) -> None:
        self._clock.advance(seconds)
        self.settle()

    def close(self) -> None:
        self._client.close()


class SeveralProcesses:
    """Driver that sends each request to a random process; they share only the file."""

    def __init__(self, processes: list[subprocess.Popen[str]], clock: RunClock, random: Random) -> None:
        self._processes, self._clock, self._random = processes, clock, random

    def call(self, operation: str, request: dict[str, Any]) -> dict[str, Any]:
        return _parse_reply(self._ask({"operation": operation, "request": to_json_value(request)}))

    def settle(self) -> None:
        self._ask({"settle": True})

    def advance(self, seconds: float) -> None:
        self._clock.advance(seconds)
        self.settle()

    def _ask(self, question: dict[str, Any]) -> dict[str, Any]:
        """Send a line of JSON to a random process and return its reply."""
        process = self._random.choice(self._processes)
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(question) + "\n")
        process.stdin.flush()
        line = process.stdout.readline()
        assert line, f"process {process.pid} ended"
        return json.loads(line)  # type: ignore[no-any-return]


# --- openers ------------------------------------------------------------------------------------------------

Opener = Callable[[Path, Random], Any]


@contextmanager
def open_in_memory(folder: Path, random: Random) -> Iterator[InProcess]:
    """Open a driver of tables in memory, with a run clock in `folder`; `random` is not used."""
    clock = RunClock(folder / "clock", start=START)
    with open_tables(clock=clock) as tables:
        yield InProcess(tables, clock)


@contextmanager
def open_on_file(folder: Path, random: Random) -> Iterator[InProcess]:
    """Open a driver of tables in a file of `folder`; `random` is not used."""
    clock = RunClock(folder / "clock", start=START)
    with open_tables(folder / "tables.db", clock=clock) as tables:
        yield InProcess(tables, clock)


@contextmanager
def open_over_http(folder: Path, random: Random) -> Iterator[OverHttp]:
    """Open a driver that calls tables in a file of `folder` over HTTP; `random` is not used."""
    clock = RunClock(folder / "clock", start=START)
    with open_tables(folder / "tables.db", clock=clock) as tables, start_server(tables=tables) as url:
        driver = OverHttp(url, tables, clock)
        try:
            yield driver
        finally:
            driver.close()


@contextmanager
def open_several_processes(folder: Path, random: Random) -> Iterator[SeveralProcesses]:
    """Open a driver of three processes on one file of `folder`; `random` chooses among them."""
    clock = RunClock(folder / "clock", start=START)
    command = [
        sys.executable,
        "-m",
        "tests.stateful.worker_process",
        str(folder / "tables.db"),
        str(folder / "clock"),
    ]
    with ExitStack() as stack:
        processes = [
            stack.enter_context(
                subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            )
            for _ in range(PROCESSES)
        ]
        yield SeveralProcesses(processes, clock, random)


# --- the protocol's JSON ------------------------------------------------------------------------------------


def _parse_reply(reply: dict[str, Any]) -> dict[str, Any]:
    """Return the answer of a reply, with binaries as bytes, or raise `Refused`."""
    if "answer" in reply:
        return _restore_bytes(reply["answer"])  # type: ignore[no-any-return]
    refused = _restore_bytes(reply["refused"])
    more = {name: refused[name] for name in ("Item", "CancellationReasons") if name in refused}
    message = refused.get("message", refused.get("Message", ""))
    raise Refused(refused["__type"].rpartition("#")[2], message, more)


def to_json_value(value: Any) -> Any:
    """Encode binaries as base64, as JSON needs them."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {name: to_json_value(each) for name, each in value.items()}
    return [to_json_value(each) for each in value] if isinstance(value, list | tuple) else value


def _restore_bytes(value: Any) -> Any:
    """Decode binaries from base64, the inverse of `to_json_value`."""
    if isinstance(value, dict):
        if value.keys() == {"B"} and isinstance(value["B"], str):
            return {"B": base64.b64decode(value["B"])}
        if value.keys() == {"BS"}:
            return {"BS": [base64.b64decode(each) for each in value["BS"]]}
        return {name: _restore_bytes(each) for name, each in value.items()}
    return [_restore_bytes(each) for each in value] if isinstance(value, list) else value
