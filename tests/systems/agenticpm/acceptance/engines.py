"""Engines and the demo environment of AgenticPM's acceptance tests: API and sandboxes over real HTTP.

Each component runs with its own rights, and the test moves the clock.

    memory   the embedded engine, in memory
    serve    the DynamoDB engine, at our own server over HTTP
    moto     the DynamoDB engine and S3, at an independent server over HTTP
"""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from agenticpm.model.entities import table
from agenticpm.system import SYSTEM
from holdfast import open_stores, provision
from holdfast.config.settings import IN_MEMORY, MEMORY_OBJECTS, Settings
from holdfast.core.clock import SYSTEM_CLOCK, Clock, RunClock
from holdfast.operations.tables import Scan
from holdfast.runtime.factory import MEMORY_SETTINGS
from holdfast.stores.tables.embedded import open_tables
from holdfast.wire.http.server import start_server
from holdfast_demo.agenticpm.demo_processes import DemoProcesses, open_demo
from tests.contract.moto import moto_endpoint

ENGINES = ("memory", "serve", "moto")
TUESDAY = 1

_NUMBERS = itertools.count()


@asynccontextmanager
async def open_demo_on(engine: str, folder: Path) -> AsyncIterator[DemoProcesses]:
    """Open the demo environment on an engine, on a Tuesday evening in Sydney."""
    clock = RunClock(folder / "clock", start=_get_next_evening())
    with _make_settings(engine, clock) as settings:
        async with open_stores(SYSTEM, settings, clock=clock) as stores:
            await provision(stores, SYSTEM)
            async with open_demo(stores, SYSTEM, clock, folder) as demo:
                yield demo


def _get_next_evening() -> float:
    """Return the next Tuesday evening in Sydney.

    It is not in the past: the engines use their own clocks and hide expired items.
    """
    now = SYSTEM_CLOCK.now()
    today = datetime.fromtimestamp(now, UTC).replace(hour=9, minute=0, second=0, microsecond=0)
    return next(
        at.timestamp() for days in range(1, 8) if (at := today + timedelta(days=days)).weekday() == TUESDAY
    )


@contextmanager
def _make_settings(engine: str, clock: Clock) -> Iterator[Settings]:
    # A third-party server is shared: each story has its own names.
    """Yield the settings of the engine; for `serve` and `moto`, start the server."""
    name = f"e{os.getpid()}-{next(_NUMBERS)}"
    if engine == "memory":
        yield MEMORY_SETTINGS
    elif engine == "serve":
        with open_tables(clock=clock) as behind, start_server(tables=behind) as url:
            tables = f"dynamodb+{url}"
            yield Settings(tables=tables, queues=IN_MEMORY, objects=MEMORY_OBJECTS, environment=name)
    else:
        with moto_endpoint() as at:
            tables, objects = f"dynamodb+http://{at}", f"s3+http://{at}"
            yield Settings(tables=tables, queues=IN_MEMORY, objects=objects, environment=name)


async def scan_table(demo: DemoProcesses) -> dict[tuple[str, str], dict[str, Any]]:
    """Return every item of the table, by key."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    start: Any = None
    while True:
        scan = Scan(demo.stores.physical_name(table), start_key=start, consistent=True)
        page = await demo.stores.tables.run(scan)
        found |= {(str(each["PK"]), str(each["SK"])): dict(each) for each in page.items or ()}
        start = page.last_key
        if start is None:
            return found
