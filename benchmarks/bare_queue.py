"""The floor of `webhooks`, in a process of its own: `python -m benchmarks.bare_queue FILE`.

As little as an endpoint can do that keeps what it is sent in a FIFO queue: read the body, write the row and its
deduplication id by hand, in a transaction that all requests of the moment share (the group commit and fsync that our
queues have), answer. The tables and indexes are those of our queues, because without them nothing could be received in
order; group and deduplication id are counted up, because finding them in the body is what ours has to do. It prints its URL.
"""

from __future__ import annotations

import itertools
import socket
import sys
import time

import apsw
import uvicorn
from starlette.types import Receive, Scope, Send

from holdfast.stores.queues.embedded.storage.schema import SCHEMA
from holdfast.stores.sqlite import Database, Tuning

GROUPS = 300
MESSAGE = """
INSERT INTO messages (lot, id, "group", deduplication, sent_at, available_at, due, attributes, body)
VALUES (1, ?1, ?2, ?1, ?3, ?3,
        CASE WHEN EXISTS (SELECT 1 FROM messages WHERE lot = 1 AND "group" = ?2) THEN NULL ELSE ?3 END, '{}', ?4)"""
SEEN = "INSERT OR IGNORE INTO deduplications (queue, deduplication, at, id, place) VALUES (1, ?1, ?2, ?1, 1)"
ANSWER = b'{"ok":true}'
HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(ANSWER))]


class BareQueue:
    def __init__(self, database: Database) -> None:
        self._database, self._numbers = database, itertools.count()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = (await receive())["body"]

        def insert(connection: apsw.Connection) -> None:
            number, now = next(self._numbers), time.time()
            id = f"message-{number:09d}"
            connection.execute(MESSAGE, (id, f"group-{number % GROUPS}", now, body.decode()))
            connection.execute(SEEN, (id, now))

        await self._database.submit(insert, savepoint=False)
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        await send({"type": "http.response.body", "body": ANSWER})


def main() -> None:
    with (
        Database.open(sys.argv[1], SCHEMA, Tuning(secure_delete=True)) as database,
        socket.create_server(("127.0.0.1", 0)) as listening,
    ):
        print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
        # As `holdfast run` serves.
        config = uvicorn.Config(
            BareQueue(database),
            loop="uvloop",
            http="httptools",
            lifespan="off",
            log_config=None,
            access_log=False,
        )
        uvicorn.Server(config).run([listening])


if __name__ == "__main__":
    main()
