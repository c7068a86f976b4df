"""The engines this suite runs over: each test once on each.

    memory   the embedded engine, in memory
    file     the embedded engine, on a file
    serve    the DynamoDB engine, at our own server over HTTP
    moto     the DynamoDB engine, at an independent server over HTTP

One of each per test run; tests make tables of their own. What moto gets wrong stands in `exceptions.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.stores.tables.dynamodb import Backoff, open_dynamodb
from holdfast.stores.tables.embedded import open_tables
from holdfast.wire.server import running_server

from .exceptions import MOTO
from .store import Store, embedded

ENGINES = ("memory", "file", "serve", "moto")
REGION = "us-east-1"
# Enough for a stray failure of the machine, and short where an endpoint answers 500 each time.
BACKOFF = Backoff(attempts_max=3)


@pytest.fixture(scope="session", params=ENGINES)
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    if request.param == "memory":
        with embedded("memory", open_tables()) as opened:
            yield opened
    elif request.param == "file":
        with embedded("file", open_tables(tmp_path_factory.mktemp("tables") / "tables.db")) as opened:
            yield opened
    elif request.param == "serve":
        with _served() as opened:
            yield opened
    else:
        with _moto() as opened:
            yield opened


@contextmanager
def _served() -> Iterator[Store]:
    with open_tables() as behind, running_server(tables=behind) as url:
        tables = open_dynamodb(endpoint=url, region=REGION, backoff=BACKOFF)
        yield Store("serve", tables, behind.sweep)
        tables.close()


@contextmanager
def _moto() -> Iterator[Store]:
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    tables = open_dynamodb(endpoint=f"http://{host}:{port}", region=REGION, backoff=BACKOFF)
    yield Store("moto", tables)
    tables.close()
    server.stop()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    for item in items:
        reason = MOTO.get(_without_engine(item.name)) if here in item.path.parents else None
        if reason is not None and "[moto" in item.name:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


def _without_engine(name: str) -> str:
    """`test_it[moto]` is `test_it`, `test_it[moto-not]` is `test_it[not]`."""
    return name.replace("[moto-", "[").replace("[moto]", "")
