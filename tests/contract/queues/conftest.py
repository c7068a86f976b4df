"""The engines this suite runs over: each test once on each.

    memory   the embedded engine, in memory
    file     the embedded engine, on a file
    moto     the SQS engine, at an independent server over HTTP

One of each per test run; tests make queues of their own. What moto gets wrong stands in `exceptions.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.stores.queues.embedded import open_queues
from holdfast.stores.queues.sqs import open_sqs
from holdfast.stores.tables.dynamodb import Backoff
from tests.contract.moto import expect_faults, moto_endpoint

from .exceptions import MOTO
from .store import Store

ENGINES = ("memory", "file", "moto")


@pytest.fixture(scope="session", params=ENGINES)
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    if request.param == "memory":
        with open_queues() as queues:
            yield Store("memory", queues)
    elif request.param == "file":
        with open_queues(tmp_path_factory.mktemp("queues") / "queues.db") as queues:
            yield Store("file", queues)
    else:
        with _moto() as opened:
            yield opened


@contextmanager
def _moto() -> Iterator[Store]:
    with moto_endpoint() as address:
        queues = open_sqs(f"sqs+http://{address}", backoff=Backoff(attempts_max=3))
        yield Store("moto", queues)
        queues.close()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    expect_faults(items, Path(__file__).parent, MOTO)
