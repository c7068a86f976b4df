"""A process that takes a key and does its effect, and is killed before it commits: for `test_inbox.py`.

python -m tests.unit.guarantees.inbox_process DATABASE KEY PAYLOAD
"""

from __future__ import annotations

import asyncio
import os
import sys

import psycopg

from holdfast.guarantees import Inbox


async def taken_for_ever(uri: str, key: str, payload: str) -> None:
    async with (
        await psycopg.AsyncConnection.connect(uri) as connection,
        Inbox().taking(connection, key, payload),
    ):
        await connection.execute("UPDATE accounts SET balance = balance + 1")
        os.write(1, b"taken\n")
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(taken_for_ever(*sys.argv[1:]))
