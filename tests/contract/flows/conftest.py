"""Fixtures of the flow contract: engines of tables and queues together, and a bench with its own tables.

memory   both embedded, in memory
file     both embedded, on files
serve    the DynamoDB engine at our own server, with embedded queues
moto     DynamoDB and SQS, at an independent server
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from holdfast import Stores
from holdfast.runtime.engines import Engines
from holdfast.stores.queues.embedded import open_queues
from holdfast.stores.queues.sqs import open_sqs
from holdfast.stores.tables.dynamodb import Backoff, open_dynamodb
from holdfast.stores.tables.embedded import open_tables
from holdfast.wire.http.server import start_server
from tests.contract.moto import moto_endpoint
from tests.unit.flows.errands import SYSTEM, Bench, HandClock, create_stores

ENGINES = ("memory", "file", "serve", "moto")
REGION = "us-east-1"
BACKOFF = Backoff(max_attempts=3)

_NUMBERS = itertools.count()

RunStory = Callable[[Callable[[Bench], Awaitable[None]]], None]


@pytest.fixture(scope="session", params=ENGINES)
def engines(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Open tables and queues."""
    with ExitStack() as stack:
        if request.param == "moto":
            address = stack.enter_context(moto_endpoint())
            tables = open_dynamodb(endpoint=f"http://{address}", region=REGION, backoff=BACKOFF)
            queues = open_sqs(f"sqs+http://{address}", backoff=BACKOFF)
            stack.callback(queues.close)
            stack.callback(tables.close)
            yield tables, queues
            return
        folder = tmp_path_factory.mktemp("flows") if request.param == "file" else None
        embedded = stack.enter_context(open_tables(folder and folder / "tables.db"))
        queued = stack.enter_context(open_queues(folder and folder / "queues.db"))
        if request.param != "serve":
            yield embedded, queued
            return
        url = stack.enter_context(start_server(tables=embedded))
        served = open_dynamodb(endpoint=url, region=REGION, backoff=BACKOFF)
        stack.callback(served.close)
        yield served, queued


@pytest.fixture
def run_story(engines: Any) -> RunStory:
    """Run a story on a bench: one process of a flow with a manual clock."""
    tables, queues = engines

    def run_on_bench(story: Callable[[Bench], Awaitable[None]]) -> None:
        async def run() -> None:
            clock = HandClock()
            environment = f"f{os.getpid()}-{next(_NUMBERS)}"
            stores = Stores(
                tables,
                system=SYSTEM,
                environment=environment,
                clock=clock,
                engines=Engines({"queues": lambda: queues}),
            )
            await create_stores(stores)
            await story(Bench(stores, clock))

        asyncio.run(run())

    return run_on_bench
