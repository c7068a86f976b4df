"""The floors of the benchmark `webhooks`: a bare HTTP server that writes the queue row by hand.

    python -m benchmarks.richpanel.webhooks_floor own|shared FILE

It is the least that an endpoint with a FIFO queue can do: read the body, write the row and its deduplication
id by hand, respond. With `own`, each request has its own transaction and fsync, as code written by hand does;
with `shared`, concurrent requests share one, as our queues do. The tables and indexes are those of our
queues, which are needed to receive in order. Group and deduplication id are counters, because finding them in
the body is our code's job. It prints its URL.
"""

from __future__ import annotations

import itertools
import socket
import sys
import time
from collections.abc import Awaitable, Callable

import apsw
import uvicorn
from starlette.types import Receive, Scope, Send

from holdfast.stores.queues.embedded.storage.schema import SCHEMA
from holdfast.stores.sqlite import Database, Tuning
from holdfast.stores.sqlite.connections import open_writer

GROUPS = 300
MESSAGE_NUMBERS = itertools.count()
TUNING = Tuning(secure_delete=True)
INSERT_MESSAGE = """
INSERT INTO messages (lot, id, "group", deduplication, sent_at, available_at, due, attributes, body)
VALUES (1, ?1, ?2, ?1, ?3, ?3,
        CASE WHEN EXISTS (SELECT 1 FROM messages WHERE lot = 1 AND "group" = ?2) THEN NULL ELSE ?3 END,
        '{}', ?4)"""
INSERT_DEDUPLICATION = (
    "INSERT OR IGNORE INTO deduplications (queue, deduplication, at, id, place) VALUES (1, ?1, ?2, ?1, 1)"
)
RESPONSE = b'{"ok":true}'
HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(RESPONSE))]


class BareIngress:
    """The ASGI app: it passes each body to `write` and responds 200."""

    def __init__(self, write: Callable[[str], Awaitable[None]]) -> None:
        self._write = write

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = (await receive())["body"]

        await self._write(body.decode())
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        await send({"type": "http.response.body", "body": RESPONSE})


class SharedFsync:
    """Writes go to the committer, which commits several at once."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def write(self, body: str) -> None:
        await self._database.submit(lambda connection: _insert(connection, body), savepoint=False)


class OwnFsync:
    """Writes block the server until the disk has them."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    async def write(self, body: str) -> None:
        with self._connection:
            _insert(self._connection, body)


def _insert(connection: apsw.Connection, body: str) -> None:
    """Insert the message and its deduplication id, numbered by a counter."""
    number, now = next(MESSAGE_NUMBERS), time.time()
    id = f"message-{number:09d}"
    connection.execute(INSERT_MESSAGE, (id, f"group-{number % GROUPS}", now, body))
    connection.execute(INSERT_DEDUPLICATION, (id, now))


def main() -> None:
    kind, file = sys.argv[1:]
    with Database.open(file, SCHEMA, TUNING) as database:
        _serve(
            BareIngress(
                SharedFsync(database).write if kind == "shared" else OwnFsync(open_writer(file, TUNING)).write
            )
        )


def _serve(app: BareIngress) -> None:
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
