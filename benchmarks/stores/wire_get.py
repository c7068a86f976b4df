"""Benchmark: GetItem calls per second over HTTP, compared with a minimal app that reads the same row.

16 keep-alive connections read the same row. Both servers run at the same time, each in its own process, and
this process calls them in turn: real HTTP over loopback, with a client that writes prebuilt bytes and checks
only the status and the length of the response.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import msgspec
import uvloop

from benchmarks.harness.measurement import Figure, compare
from benchmarks.stores import items
from benchmarks.stores.batch_import import load_items
from benchmarks.stores.sqlite_floor import SqliteFloor
from holdfast.stores.tables.embedded import open_tables

CONNECTIONS = 16
REQUESTS = 8_000
ITEMS = 1_000
KEY_ITEM = items.build_item(277)


def run(folder: Path) -> Figure:
    floor = SqliteFloor(folder / "floor.db")
    floor.insert(items.build_item(number) for number in range(ITEMS))
    floor.close()
    with open_tables(folder / "tables.db") as tables:
        load_items(tables, ITEMS)
    request = _build_request()
    with _run_server("holdfast", folder) as ours, _run_server("bare", folder) as bare:
        return compare(
            "GetItem over the wire",
            lambda: uvloop.run(_measure_rate(ours, request)),
            lambda: uvloop.run(_measure_rate(bare, request)),
            0.50,
        )


def _build_request() -> bytes:
    """Return a GetItem request as bytes, with a signature that is not verified."""
    key = {name: {"S": KEY_ITEM[name]} for name in ("pk", "sk")}
    body = msgspec.json.encode({"TableName": items.TABLE, "Key": key})
    head = (
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-amz-json-1.0\r\n"
        "X-Amz-Target: DynamoDB_20120810.GetItem\r\nX-Amz-Date: 20261115T100000Z\r\n"
        "Authorization: AWS4-HMAC-SHA256 Credential=bench/20261115/us-east-1/dynamodb/aws4_request,"
        " SignedHeaders=content-type;host;x-amz-date;x-amz-target, Signature=" + "0" * 64 + "\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


@contextmanager
def _run_server(kind: str, folder: Path) -> Iterator[str]:
    """Run a server in a child process and yield its URL, the first line it prints."""
    command = [sys.executable, "-m", "benchmarks.stores.wire_server", kind, str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.communicate()  # closes its standard input, on which it exits


async def _measure_rate(url: str, request: bytes) -> float:
    """Send the request over all connections and return the responses per second."""
    address = urlsplit(url)
    streams = [await asyncio.open_connection(address.hostname, address.port) for _ in range(CONNECTIONS)]
    started = time.perf_counter()
    await asyncio.gather(*(_send_requests(*stream, request) for stream in streams))
    rate = REQUESTS / (time.perf_counter() - started)
    for _, writer in streams:
        writer.close()
    return rate


async def _send_requests(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> None:
    """Send one connection's share of the requests, one after the other; check the status of each."""
    for _ in range(REQUESTS // CONNECTIONS):
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
