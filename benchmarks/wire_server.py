"""One of the two servers that `wire_get` compares, in a process of its own: `python -m benchmarks.wire_server`.

Prints its URL and serves until its standard input ends.
"""

from __future__ import annotations

import gc
import sys
from contextlib import AbstractContextManager
from pathlib import Path

import apsw

from benchmarks.wire_get import KEY
from holdfast.stores.tables.embedded import open_tables
from holdfast.wire.app import Receive, Scope, Send
from holdfast.wire.server import Bounds, running_server, serving

SELECT = "SELECT item FROM items WHERE pk = ? AND sk = ?"
PLACE = (str(KEY["pk"]).encode(), str(KEY["sk"]).encode())


class BareApp:
    """As little as an app can do: read the body, read the row, send it as it is."""

    def __init__(self, path: Path) -> None:
        self._connection = apsw.Connection(str(path))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        body = self._connection.execute(SELECT, PLACE).fetchone()[0]  # type: ignore[index]
        headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def main() -> None:
    kind, folder = sys.argv[1], Path(sys.argv[2])
    if kind == "bare":
        _serve(serving(BareApp(folder / "floor.db"), Bounds()))
    else:
        with open_tables(folder / "tables.db") as tables:
            _serve(running_server(tables=tables))


def _serve(server: AbstractContextManager[str]) -> None:
    with server as url:
        gc.collect()
        gc.freeze()  # as `holdfast serve` does
        print(url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
