"""A process that writes rows into an embedded PostgreSQL and prints the ids that are stored.

For `test_sql_killed.py`. Each row has a unique id. After a write with an unknown outcome it looks for the row
and repeats the write only if it is missing, as callers should. Each line on the standard output is an id that
is stored, or `ready` once the table is.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

from holdfast.core.errors import OutcomeUnknown, RetryLater, StoreClosed
from holdfast.operations.sql import Statement
from holdfast.stores.sql.postgres import PostgresSql, open_embedded_postgres

WRITERS = 4
TABLE = "CREATE TABLE IF NOT EXISTS written (id text PRIMARY KEY)"
LEDGER = "CREATE TABLE IF NOT EXISTS ledger (id text, by text)"


async def main(folder: Path, name: str, rows: int) -> None:
    """Create the tables, print "ready", and write this many rows with several tasks."""
    engine = open_embedded_postgres(folder)
    try:
        async with engine.transaction() as transaction:
            # Two processes may start at once, and IF NOT EXISTS does not wait for the other.
            await transaction.run(Statement(text="SELECT pg_advisory_xact_lock(1)"))
            for text in (TABLE, LEDGER):
                await transaction.run(Statement(text=text, writes=True))
        print_line("ready")
        left = iter(range(rows))
        await asyncio.gather(*(write_all(engine, name, left) for _ in range(WRITERS)))
    finally:
        engine.close()


async def write_all(engine: PostgresSql, name: str, left: Iterator[int]) -> None:
    for number in left:
        await write(engine, f"{name}-{number}")


async def write(engine: PostgresSql, id: str) -> None:
    """Write a row to both tables until it is stored, then print its id.

    The ledger has no unique key: only the engine's care prevents duplicates.
    """
    while True:
        try:
            await engine.run_all(
                [
                    Statement(
                        text=f"INSERT INTO {table} VALUES ({values})", parameters={"id": id}, writes=True
                    )
                    for table, values in (("written", "%(id)s"), ("ledger", "%(id)s, 'us'"))
                ]
            )
        except OutcomeUnknown:
            if not await is_stored(engine, id):
                continue
        except StoreClosed:
            raise  # permanent: a retry would spin and never let the process end
        except RetryLater:
            continue
        print_line(id)
        return


async def is_stored(engine: PostgresSql, id: str) -> bool:
    """Return True if the row is in the ledger; retried while the server is down."""
    look = Statement(text="SELECT 1 FROM ledger WHERE id = %(id)s", parameters={"id": id})
    while True:
        try:
            return (await engine.run(look)).count > 0
        except StoreClosed:
            raise
        except RetryLater:
            continue


def print_line(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
