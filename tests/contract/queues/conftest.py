"""The engines this suite runs over: each test once on each.

    memory   the embedded engine, in memory
    file     the embedded engine, on a file
    moto     the SQS engine, at an independent server over HTTP

One of each per test run; tests make queues of their own. What moto gets wrong stands in `exceptions.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast.stores.queues.embedded import open_queues
from holdfast.stores.queues.sqs import open_sqs
from holdfast.stores.tables.dynamodb import Backoff

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
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    queues = open_sqs(f"sqs+http://{host}:{port}", backoff=Backoff(attempts_max=3))
    yield Store("moto", queues)
    queues.close()
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
