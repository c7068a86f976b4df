"""Fixtures of the tables contract: every test runs on each of four engines.

    memory   the embedded engine, in memory
    file     the embedded engine, on a file
    serve    the DynamoDB engine, at our own server over HTTP
    moto     the DynamoDB engine, at an independent server over HTTP

One of each per test run; tests create their own tables. `moto_failures.py` lists moto's known deviations.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.stores.tables.dynamodb import Backoff, open_dynamodb
from holdfast.stores.tables.embedded import open_tables
from holdfast.wire.http.server import start_server
from tests.contract.moto import expect_failures, moto_endpoint

from .moto_failures import MOTO
from .store import Store, run_embedded_store

ENGINES = ("memory", "file", "serve", "moto")
REGION = "us-east-1"
# Long enough for a stray failure of the machine, and short where an endpoint answers 500 each time.
BACKOFF = Backoff(max_attempts=3)


@pytest.fixture(scope="session", params=ENGINES)
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Yield the tables store under test, once per engine."""
    if request.param == "memory":
        with run_embedded_store("memory", open_tables()) as opened:
            yield opened
    elif request.param == "file":
        with run_embedded_store(
            "file", open_tables(tmp_path_factory.mktemp("tables") / "tables.db")
        ) as opened:
            yield opened
    elif request.param == "serve":
        with _run_served_store() as opened:
            yield opened
    else:
        with _run_moto_store() as opened:
            yield opened


@contextmanager
def _run_served_store() -> Iterator[Store]:
    """Run the DynamoDB engine at our own server, with an embedded engine behind it."""
    with open_tables() as behind, start_server(tables=behind) as url:
        tables = open_dynamodb(endpoint=url, region=REGION, backoff=BACKOFF)
        yield Store("serve", tables, behind.sweep)
        tables.close()


@contextmanager
def _run_moto_store() -> Iterator[Store]:
    """Run the DynamoDB engine at moto's server."""
    with moto_endpoint() as address:
        tables = open_dynamodb(endpoint=f"http://{address}", region=REGION, backoff=BACKOFF)
        yield Store("moto", tables)
        tables.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    expect_failures(items, Path(__file__).parent, MOTO)
