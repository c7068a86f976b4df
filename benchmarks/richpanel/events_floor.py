"""One process of the floor of the benchmark `events`: the workers' calls and writes, by hand.

    python -m benchmarks.richpanel.events_floor URL FILE EVENTS CALLS WRITES

For each event it calls the help desk over keep-alive connections, sixteen events at a time as our workers do,
and commits transactions with one row and one fsync each, one after the other as code written by hand does.
The processes take turns by a file lock: SQLite's own busy handler sleeps between attempts and loses most of
its time there.
"""

from __future__ import annotations

import asyncio
import fcntl
import itertools
import os
import sys

import apsw
import httpx2 as httpx
import uvloop

CONCURRENCY = 16
BUSY_MS = 60_000
ROW = "x" * 600


async def process_events(url: str, file: str, events: int, calls: int, writes: int) -> None:
    """Print "ready", wait until standard input ends, then make this many calls and writes for each event."""
    connection = apsw.Connection(file)
    connection.set_busy_timeout(BUSY_MS)
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", "full")
    connection.execute("CREATE TABLE IF NOT EXISTS rows (id INTEGER PRIMARY KEY, body TEXT NOT NULL)")
    numbers = iter(range(events))
    turn = os.open(file + "-turn", os.O_RDWR | os.O_CREAT)
    async with httpx.AsyncClient(base_url=url) as client:  # the client that our workers use
        await client.get("/v1/tickets/ticket-0")
        print("ready", flush=True)
        sys.stdin.read()

        async def task() -> None:
            for number in numbers:
                steps = itertools.zip_longest(range(calls), range(writes))
                for call, write in steps:
                    if call is not None:
                        await client.get(f"/v1/tickets/ticket-{number % 100}")
                    if write is not None:
                        fcntl.flock(turn, fcntl.LOCK_EX)
                        connection.execute("INSERT INTO rows (body) VALUES (?)", (ROW,))
                        fcntl.flock(turn, fcntl.LOCK_UN)

        await asyncio.gather(*(task() for _ in range(CONCURRENCY)))
    connection.close()
    os.close(turn)


def main() -> None:
    url, file, *counts = sys.argv[1:]
    events, calls, writes = map(int, counts)
    uvloop.run(process_events(url, file, events, calls, writes))


if __name__ == "__main__":
    main()
