"""GetItem over the wire, 16 connections kept alive, beside a bare ASGI app on the same server and row.

Both servers run at once, each in a process of its own, and are asked in turn by this process: real HTTP over
loopback, with a client that writes ready-made bytes and looks no further than the length of the answer.
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

from benchmarks import sample
from benchmarks.batch_import import load
from benchmarks.floor import Floor
from benchmarks.measure import Figure, compared
from holdfast.stores.tables.embedded import open_tables

CONNECTIONS = 16
REQUESTS = 8_000
ITEMS = 1_000
KEY = sample.item(277)


def run(folder: Path) -> Figure:
    floor = Floor(folder / "floor.db")
    floor.insert(sample.item(number) for number in range(ITEMS))
    floor.close()
    with open_tables(folder / "tables.db") as tables:
        load(tables, ITEMS)
    request = _request()
    with _server("holdfast", folder) as ours, _server("bare", folder) as bare:
        return compared(
            "GetItem over the wire",
            lambda: uvloop.run(_ask(ours, request)),
            lambda: uvloop.run(_ask(bare, request)),
            0.50,
        )


def _request() -> bytes:
    key = {name: {"S": KEY[name]} for name in ("pk", "sk")}
    body = msgspec.json.encode({"TableName": sample.TABLE, "Key": key})
    head = (
        "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-amz-json-1.0\r\n"
        "X-Amz-Target: DynamoDB_20120810.GetItem\r\nX-Amz-Date: 20261115T100000Z\r\n"
        "Authorization: AWS4-HMAC-SHA256 Credential=bench/20261115/us-east-1/dynamodb/aws4_request,"
        " SignedHeaders=content-type;host;x-amz-date;x-amz-target, Signature=" + "0" * 64 + "\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


@contextmanager
def _server(kind: str, folder: Path) -> Iterator[str]:
    """A server in a process of its own; its URL is the first line it prints."""
    command = [sys.executable, "-m", "benchmarks.wire_server", kind, str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.communicate()  # its standard input ends, and so does it


async def _ask(url: str, request: bytes) -> float:
    address = urlsplit(url)
    streams = [await asyncio.open_connection(address.hostname, address.port) for _ in range(CONNECTIONS)]
    begun = time.perf_counter()
    await asyncio.gather(*(_ask_on(*stream, request) for stream in streams))
    rate = REQUESTS / (time.perf_counter() - begun)
    for _, writer in streams:
        writer.close()
    return rate


async def _ask_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes) -> None:
    for _ in range(REQUESTS // CONNECTIONS):
        writer.write(request)
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        await reader.readexactly(length)
