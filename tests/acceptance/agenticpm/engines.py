"""The engines that AgenticPM is played on, with everything around it as in the demo: the API, Jira, the mailbox and the
mailer over real HTTP, each component with its own rights, and a clock that is moved by hand.

    memory   the embedded engine, in memory
    serve    the DynamoDB engine, at our own server over HTTP
    moto     the DynamoDB engine and S3, at an independent server over HTTP
"""

from __future__ import annotations

import asyncio
import itertools
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from agenticpm.demo.demo_processes import DemoProcesses, start_demo
from agenticpm.model.entities import table
from agenticpm.system import SYSTEM
from holdfast import Stores, open_stores, provision
from holdfast.config.settings import IN_MEMORY, MEMORY_OBJECTS, Settings
from holdfast.core.clock import SYSTEM_CLOCK, Clock, RunClock
from holdfast.operations.tables import Scan
from holdfast.runtime.factory import MEMORY_SETTINGS
from holdfast.stores.tables.embedded import open_tables
from holdfast.wire.server import running_server
from tests.contract.moto import moto_endpoint

ENGINES = ("memory", "serve", "moto")
TUESDAY = 1

_NUMBERS = itertools.count()

Story = Callable[[DemoProcesses], Awaitable[None]]


def played(engine: str, folder: Path, story: Story) -> None:
    clock = RunClock(folder / "clock", start=_evening())
    with _settings(engine, clock) as settings:
        asyncio.run(_played(settings, clock, folder, story))


def _evening() -> float:
    """The next Tuesday evening in Sydney. Not a day of the past: engines have clocks of their own, and hide what has lived
    its time."""
    now = SYSTEM_CLOCK.now()
    today = datetime.fromtimestamp(now, UTC).replace(hour=9, minute=0, second=0, microsecond=0)
    return next(
        at.timestamp() for days in range(1, 8) if (at := today + timedelta(days=days)).weekday() == TUESDAY
    )


async def _played(settings: Settings, clock: RunClock, folder: Path, story: Story) -> None:
    async with _stores(settings, clock) as stores, start_demo(stores, SYSTEM, clock, folder) as stage:
        await story(stage)


@asynccontextmanager
async def _stores(settings: Settings, clock: RunClock) -> AsyncIterator[Stores]:
    async with open_stores(SYSTEM, settings, clock=clock) as stores:
        await provision(stores, SYSTEM)
        yield stores


@contextmanager
def _settings(engine: str, clock: Clock) -> Iterator[Settings]:
    # What is in a server of others is shared: each story has names of its own.
    name = f"a{os.getpid()}-{next(_NUMBERS)}"
    if engine == "memory":
        yield MEMORY_SETTINGS
    elif engine == "serve":
        with open_tables(clock=clock) as behind, running_server(tables=behind) as url:
            tables = f"dynamodb+{url}"
            yield Settings(tables=tables, queues=IN_MEMORY, objects=MEMORY_OBJECTS, environment=name)
    else:
        with moto_endpoint() as at:
            tables, objects = f"dynamodb+http://{at}", f"s3+http://{at}"
            yield Settings(tables=tables, queues=IN_MEMORY, objects=objects, environment=name)


async def items(stage: DemoProcesses) -> dict[tuple[str, str], dict[str, Any]]:
    """All that is in the table, by its keys."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    start: Any = None
    while True:
        scan = Scan(stage.stores.physical_name(table), start_key=start, consistent=True)
        page = await stage.stores.tables.run(scan)
        found |= {(str(each["PK"]), str(each["SK"])): dict(each) for each in page.items or ()}
        start = page.last_key
        if start is None:
            return found
