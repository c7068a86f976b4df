"""A PostgreSQL for the tests of one process, started when it is first wanted, and databases in it for each test.

    settings = Settings(sql=fresh_database())                  # an empty database
    settings = Settings(sql=fresh_database(SCHEMA))            # one in which the migrations of SCHEMA were run

Migrations run once in a process; each further database is a copy. `url_of(name)` names a database by its URL, as the
setting `sql` takes it; other processes that a test starts may be given it too.
"""

from __future__ import annotations

import asyncio
import itertools
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg import sql

from holdfast import Schema
from holdfast.stores.sql.postgres import EmbeddedServer, open_postgres
from holdfast.stores.sql.postgres.embedded import stop_abandoned

_numbers = itertools.count(1)


@cache
def server() -> EmbeddedServer:
    """One for this process; it is stopped and removed at the process's end."""
    started = EmbeddedServer(None)
    started.use()
    return started


def url_of(database: str) -> str:
    running = server().ensure_running()
    return (
        f"postgresql://postgres@/{database}?host={quote(running.socket_folder, safe='')}&port={running.port}"
    )


def fresh_database(*schemas: Schema) -> str:
    """The URL of a database of its own, with the tables of these schemas."""
    name = f"test_{next(_numbers)}"
    _create(name, _template(schemas))
    return url_of(name)


@cache
def _template(schemas: tuple[Schema, ...]) -> str:
    if not schemas:
        return "template1"
    name = f"template_{next(_numbers)}"
    _create(name, "template1")
    asyncio.run(_migrate(url_of(name), schemas))
    return name


async def _migrate(url: str, schemas: tuple[Schema, ...]) -> None:
    engine = open_postgres(url)
    try:
        for schema in schemas:
            await engine.migrate(schema.name, schema.migrations)
    finally:
        engine.close()


def _create(name: str, template: str) -> None:
    create = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy")
    with psycopg.connect(url_of("postgres"), autocommit=True) as connection:
        connection.execute(create.format(sql.Identifier(name), sql.Identifier(template)))


@contextmanager
def new_folder() -> Iterator[Path]:
    """Make a folder for a server of a test's own; stop that server and remove the folder at the end."""
    folder = Path(tempfile.mkdtemp(prefix="holdfast-test-"))
    try:
        yield folder
    finally:
        # A test that failed has left it running.
        stop_abandoned(folder)
        shutil.rmtree(folder, ignore_errors=True)


def connected(url: str) -> psycopg.Connection[Any]:
    """A bare connection, to look from outside."""
    return psycopg.connect(url, autocommit=True)
