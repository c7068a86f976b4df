"""The floors of `pagw-accepted`, each in a process of its own: `python -m benchmarks.pagw_bare threads|loop CONNINFO FOLDER`.

A bare handler that keeps one object and one row: the body as a file, brought to the disk before it has its name and the name
with it, and then a row of the same size committed to PostgreSQL, which answers when the disk has it. Nothing is looked at.
With `threads`, in as many at once as a gateway has connections; with `loop`, in the handler itself, which stands still until
the disk has both. It prints its URL.
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

# As many as a gateway has by itself.
AT_ONCE = 10
MAKE = "CREATE TABLE IF NOT EXISTS bare (id TEXT PRIMARY KEY, body TEXT NOT NULL)"
INSERT = "INSERT INTO bare (id, body) VALUES (%s, %s)"
ANSWER = b'{"pagwId":"PAGW-0000000000000000"}'
HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(ANSWER))]


class BareGateway:
    def __init__(self, pool: ConnectionPool, folder: Path, *, in_threads: bool) -> None:
        self._pool, self._folder = pool, folder
        self._threads = ThreadPoolExecutor(AT_ONCE) if in_threads else None
        self._numbers = itertools.count()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body, goes_on = b"", True
        while goes_on:
            message = await receive()
            body += message["body"]
            goes_on = message.get("more_body", False)
        number = next(self._numbers)
        if self._threads is None:
            self._keep(number, body)
        else:
            await asyncio.get_running_loop().run_in_executor(self._threads, self._keep, number, body)
        await send({"type": "http.response.start", "status": 202, "headers": HEADERS})
        await send({"type": "http.response.body", "body": ANSWER})

    def _keep(self, number: int, body: bytes) -> None:
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
    with ConnectionPool(conninfo, min_size=AT_ONCE, kwargs={"autocommit": True}, open=True) as pool:
        with pool.connection() as connection:
            connection.execute(MAKE)
        _serve(BareGateway(pool, folder, in_threads=kind == "threads"))


def _serve(app: BareGateway) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
        # As `holdfast run` serves.
        config = uvicorn.Config(
            app, loop="uvloop", http="httptools", lifespan="off", log_config=None, access_log=False
        )
        uvicorn.Server(config).run([listening])


if __name__ == "__main__":
    main()
