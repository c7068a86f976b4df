"""A worker process that stops itself in the middle of sending a request, for `test_once_limits.py`.

Its request leaves in one piece with the check of the deadline, as the last bytes of a request on an open
connection do: nothing can cancel it when the process continues.
"""

from __future__ import annotations

import http.client
import json
import logging
import os
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from holdfast import Stores
from holdfast.core.clock import RunClock
from holdfast.core.errors import LeaseLost
from holdfast.stores.tables.embedded import open_tables
from tests.unit.guarantees.idempotency.once_records import make_event, once

ACT_S = 10.0


async def main(path: Path, clock: Path, url: str, takes_key: bool) -> None:
    """Send a letter once; print `waiting` before it waits for input, and the counted overlaps at the end."""
    logging.basicConfig(level=logging.WARNING)
    connection = http.client.HTTPConnection(urlsplit(url).netloc)
    connection.connect()

    async def send(key: str) -> dict[str, Any]:
        print("waiting", flush=True)  # noqa: T201
        sys.stdin.readline()
        connection.request("POST", "/", json.dumps({"key": key}), {"X-Worker": str(os.getpid())})
        answer: dict[str, Any] = json.loads(connection.getresponse().read())
        return answer

    async def look_up(key: str) -> None:
        return None

    with open_tables(path) as tables:
        stores, overlaps = Stores(tables, clock=RunClock(clock)), list[str]()
        stores.measurements.subscribe(lambda each: overlaps.append(each.name))
        try:
            await once.call_external(
                stores,
                make_event(),
                act=send,
                look_up=None if takes_key else look_up,
                takes_key=takes_key,
                act_s=ACT_S,
            )
        except LeaseLost:
            print(overlaps, flush=True)  # noqa: T201
