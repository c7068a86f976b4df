"""Fixtures of the queues contract: every test runs on each of three engines.

    memory   the embedded engine, in memory
    file     the embedded engine, on a file
    moto     the SQS engine, at an independent server over HTTP

One of each per test run; tests create their own queues. `moto_failures.py` lists moto's known deviations.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.stores.queues.embedded import open_queues
from holdfast.stores.queues.sqs import open_sqs
from holdfast.stores.tables.dynamodb import Backoff
from tests.contract.moto import expect_failures, moto_endpoint

from .moto_failures import MOTO
from .store import Store

ENGINES = ("memory", "file", "moto")


@pytest.fixture(scope="session", params=ENGINES)
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Yield the queues store under test, once per engine."""
    if request.param == "memory":
        with open_queues() as queues:
            yield Store("memory", queues)
    elif request.param == "file":
        with open_queues(tmp_path_factory.mktemp("queues") / "queues.db") as queues:
            yield Store("file", queues)
    else:
        with _open_moto_store() as opened:
            yield opened


@contextmanager
def _open_moto_store() -> Iterator[Store]:
    with moto_endpoint() as address:
        queues = open_sqs(f"sqs+http://{address}", backoff=Backoff(max_attempts=3))
        yield Store("moto", queues)
        queues.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    expect_failures(items, Path(__file__).parent, MOTO)
