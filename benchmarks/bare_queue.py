"""The floors of `webhooks`, in a process of its own: `python -m benchmarks.bare_queue own|shared FILE`.

As little as an endpoint can do that keeps what it is sent in a FIFO queue: read the body, write the row and its
deduplication id by hand, answer. With `own`, in a transaction and an fsync of its own, as one would write it by hand; with
`shared`, in a transaction that all requests of the moment share, as our queues do. The tables and indexes are those of our
queues, because without them nothing could be received in order; group and deduplication id are counted up, because finding
them in the body is what ours has to do. It prints its URL.
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
NUMBERS = itertools.count()
TUNING = Tuning(secure_delete=True)
MESSAGE = """
INSERT INTO messages (lot, id, "group", deduplication, sent_at, available_at, due, attributes, body)
VALUES (1, ?1, ?2, ?1, ?3, ?3,
        CASE WHEN EXISTS (SELECT 1 FROM messages WHERE lot = 1 AND "group" = ?2) THEN NULL ELSE ?3 END, '{}', ?4)"""
SEEN = "INSERT OR IGNORE INTO deduplications (queue, deduplication, at, id, place) VALUES (1, ?1, ?2, ?1, 1)"
ANSWER = b'{"ok":true}'
HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(ANSWER))]


class BareQueue:
    def __init__(self, write: Callable[[str], Awaitable[None]]) -> None:
        self._write = write

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = (await receive())["body"]

        await self._write(body.decode())
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        await send({"type": "http.response.body", "body": ANSWER})


class Shared:
    """Writes go to the committer, and are waited for."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def write(self, body: str) -> None:
        await self._database.submit(lambda connection: _insert(connection, body), savepoint=False)


class Own:
    """The server stands still until the disk has it."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    async def write(self, body: str) -> None:
        with self._connection:
            _insert(self._connection, body)


def _insert(connection: apsw.Connection, body: str) -> None:
    number, now = next(NUMBERS), time.time()
    id = f"message-{number:09d}"
    connection.execute(MESSAGE, (id, f"group-{number % GROUPS}", now, body))
    connection.execute(SEEN, (id, now))


def main() -> None:
    kind, file = sys.argv[1:]
    with Database.open(file, SCHEMA, TUNING) as database:
        _serve(
            BareQueue(Shared(database).write if kind == "shared" else Own(open_writer(file, TUNING)).write)
        )


def _serve(app: BareQueue) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
        # As `holdfast run` serves.
        config = uvicorn.Config(
            app, loop="uvloop", http="httptools", lifespan="off", log_config=None, access_log=False
        )
        uvicorn.Server(config).run([listening])


if __name__ == "__main__":
    main()
