"""One PostgreSQL per test process, started on first use, with a database for each test.

    settings = Settings(sql=create_database())             # an empty database
    settings = Settings(sql=create_database(SCHEMA))       # a database after the migrations of SCHEMA

Migrations run once in a process; each further database is a copy. `build_url(name)` names a database by its
URL, as the setting `sql` takes it; other processes that a test starts may be given it too.
"""

from __future__ import annotations

import asyncio
import itertools
import shutil
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg import sql

from holdfast import Schema
from holdfast.stores.sql.postgres import EmbeddedServer, open_postgres
from holdfast.stores.sql.postgres.embedded import stop_abandoned_server

_numbers = itertools.count(1)


@cache
def get_server() -> EmbeddedServer:
    """Return the server of this process; it is stopped and removed when the process exits."""
    started = EmbeddedServer(None)
    started.use()
    return started


def build_url(database: str) -> str:
    """Return the URL of a database on the server of this process."""
    running = get_server().ensure_running()
    return (
        f"postgresql://postgres@/{database}?host={quote(running.socket_folder, safe='')}&port={running.port}"
    )


def create_database(*schemas: Schema) -> str:
    """Create a database with the tables of these schemas and return its URL."""
    name = f"test_{next(_numbers)}"
    _create_database(name, _get_template(schemas))
    return build_url(name)


@cache
def _get_template(schemas: tuple[Schema, ...]) -> str:
    """Return the name of a database to copy: an empty one, or one after the migrations of these schemas."""
    if not schemas:
        return "template1"
    name = f"template_{next(_numbers)}"
    _create_database(name, "template1")
    # In a thread, because a caller may have an event loop.
    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, _migrate(build_url(name), schemas)).result()
    return name


async def _migrate(url: str, schemas: tuple[Schema, ...]) -> None:
    engine = open_postgres(url)
    try:
        for schema in schemas:
            await engine.migrate(schema.name, schema.migrations)
    finally:
        engine.close()


def _create_database(name: str, template: str) -> None:
    create = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy")
    with psycopg.connect(build_url("postgres"), autocommit=True) as connection:
        connection.execute(create.format(sql.Identifier(name), sql.Identifier(template)))


@contextmanager
def new_folder() -> Iterator[Path]:
    """Create a folder for a server that one test starts.

    At the end of the block, stop that server and remove the folder.
    """
    folder = Path(tempfile.mkdtemp(prefix="holdfast-test-"))
    try:
        yield folder
    finally:
        # A test that failed has left it running.
        stop_abandoned_server(folder)
        shutil.rmtree(folder, ignore_errors=True)


def connect(url: str) -> psycopg.Connection[Any]:
    """Open a plain connection, bypassing the store."""
    return psycopg.connect(url, autocommit=True)
