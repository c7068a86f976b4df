"""A server process of the benchmark `wire-get`: the DynamoDB endpoint, or its bare floor.

    python -m benchmarks.stores.wire_server holdfast|bare FOLDER

It prints its URL and serves until its standard input ends.
"""

from __future__ import annotations

import gc
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import apsw

from benchmarks.stores.wire_get import KEY_ITEM
from holdfast.stores.tables.embedded import open_tables
from holdfast.wire.http.app import Receive, Scope, Send
from holdfast.wire.http.server import Bounds, start_app_server, start_server

SELECT = "SELECT item FROM items WHERE pk = ? AND sk = ?"
KEY_VALUES = (str(KEY_ITEM["pk"]).encode(), str(KEY_ITEM["sk"]).encode())


class BareApp:
    """The least that an app can do: read the body, read the row, send it unchanged."""

    def __init__(self, path: Path) -> None:
        self._connection = apsw.Connection(str(path))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        body = self._connection.execute(SELECT, KEY_VALUES).fetchone()[0]  # type: ignore[index]
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def main() -> None:
    kind, folder = sys.argv[1], Path(sys.argv[2])
    if kind == "bare":
        _serve(start_app_server(BareApp(folder / "floor.db"), Bounds()))
    else:
        with open_tables(folder / "tables.db") as tables:
            _serve(start_server(tables=tables))


def _serve(server: AbstractContextManager[str]) -> None:
    """Print the server's URL and wait until standard input ends."""
    with server as url:
        gc.collect()
        gc.freeze()  # like `holdfast serve`
        print(url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
