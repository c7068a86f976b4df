"""The floors of the benchmark `pagw-accepted`: a bare HTTP server that stores an object and a row.

    python -m benchmarks.pagw.intake_floor threads|loop CONNINFO FOLDER

It writes the body to a file, fsyncs it, renames it and fsyncs the folder, then commits a row of the same size
to PostgreSQL. It checks nothing. With `threads`, it handles as many requests at a time as a gateway has
connections; with `loop`, the handler itself blocks until the disk has both. It prints its URL.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import uvicorn
from psycopg_pool import ConnectionPool
from starlette.types import Receive, Scope, Send

# The default pool size of a gateway.
CONCURRENCY = 10
CREATE_TABLE = "CREATE TABLE IF NOT EXISTS bare (id TEXT PRIMARY KEY, body TEXT NOT NULL)"
INSERT = "INSERT INTO bare (id, body) VALUES (%s, %s)"
RESPONSE = b'{"pagwId":"PAGW-0000000000000000"}'
HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(RESPONSE))]


class BareGateway:
    """The ASGI app: it stores each body and responds 202 with a constant."""

    def __init__(self, pool: ConnectionPool, folder: Path, *, in_threads: bool) -> None:
        self._pool, self._folder = pool, folder
        self._threads = ThreadPoolExecutor(CONCURRENCY) if in_threads else None
        self._numbers = itertools.count()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body, has_more = b"", True
        while has_more:
            message = await receive()
            body += message["body"]
            has_more = message.get("more_body", False)
        number = next(self._numbers)
        if self._threads is None:
            self._store(number, body)
        else:
            await asyncio.get_running_loop().run_in_executor(self._threads, self._store, number, body)
        await send({"type": "http.response.start", "status": 202, "headers": HEADERS})
        await send({"type": "http.response.body", "body": RESPONSE})

    def _store(self, number: int, body: bytes) -> None:
        """Write the body to a fsynced file and insert it as a row."""
        name = f"{os.getpid()}-{number}"
        written = self._folder / f"{name}.new"
        descriptor = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        os.write(descriptor, body)
        os.fsync(descriptor)
        os.close(descriptor)
        written.rename(self._folder / name)
        descriptor = os.open(self._folder, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)
        with self._pool.connection() as connection:
            connection.execute(INSERT, (name, body.decode()))


def main() -> None:
    kind, conninfo, folder = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    folder.mkdir(exist_ok=True)
    with ConnectionPool(conninfo, min_size=CONCURRENCY, kwargs={"autocommit": True}, open=True) as pool:
        with pool.connection() as connection:
            connection.execute(CREATE_TABLE)
        _serve(BareGateway(pool, folder, in_threads=kind == "threads"))


def _serve(app: BareGateway) -> None:
    """Serve the app on a free port and print its URL."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
        # The server settings of `holdfast run`.
        config = uvicorn.Config(
            app, loop="uvloop", http="httptools", lifespan="off", log_config=None, access_log=False
        )
        uvicorn.Server(config).run([listening])


if __name__ == "__main__":
    main()
