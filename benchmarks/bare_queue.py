"""The floor of `webhooks`, in a process of its own: `python -m benchmarks.bare_queue FILE`.

As little as an endpoint can do that keeps what it is sent: read the body, write it as a row in a transaction that all
requests of the moment share (the same group commit and fsync as our queues), answer. It prints its URL.
"""

from __future__ import annotations

import socket
import sys

import apsw
import uvicorn
from starlette.types import Receive, Scope, Send

from holdfast.stores.sqlite import Database, Migration, Schema

TABLE = "CREATE TABLE messages (place INTEGER PRIMARY KEY, body BLOB NOT NULL)"
SCHEMA = Schema(0x42454E43, (Migration(1, TABLE),))
ANSWER = b'{"ok":true}'
HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(ANSWER))]


class BareQueue:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = (await receive())["body"]

        def insert(connection: apsw.Connection) -> None:
            connection.execute("INSERT INTO messages (body) VALUES (?)", (body,))

        await self._database.submit(insert, savepoint=False)
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        await send({"type": "http.response.body", "body": ANSWER})


def main() -> None:
    with Database.open(sys.argv[1], SCHEMA) as database, socket.create_server(("127.0.0.1", 0)) as listening:
        print(f"http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
        # As `holdfast run` serves.
        config = uvicorn.Config(
            BareQueue(database), loop="uvloop", http="httptools", lifespan="off", log_config=None, access_log=False
        )
        uvicorn.Server(config).run([listening])


if __name__ == "__main__":
    main()
