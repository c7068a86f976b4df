"""Fixtures of the MCP contract: what an agent gets from each system with its sample, on two sets of engines.

embedded   tables, queues, objects and cache in this process; called in process, with the older protocol
services   DynamoDB, SQS and S3 at moto's server, and Redis; called over HTTP, with the newer protocol. They
           have the items and objects that the embedded session has read

SQL is PostgreSQL in both: one server per test process, one database per system.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest
from mcp import Client

from holdfast import Stores, System
from holdfast.config.settings import Settings
from holdfast.mcp import build_server
from holdfast.mcp.http_app import AgentGuard, build_http_app
from holdfast.model.demo import find_demo
from holdfast.model.system import load_system
from holdfast.runtime import open_systems, start_system
from holdfast.runtime.factory import MEMORY_SETTINGS
from holdfast.web import serve_in_thread
from pagw.ops import monitoring
from tests.contract.moto import moto_endpoint
from tests.contract.redis_server import run_redis
from tests.postgres import create_database

from .recording import Recording
from .transcript import Transcript, record_transcript

SYSTEMS = ("agenticpm", "pagw", "richpanel", "skymarshal", "tripcortex")
# The smallest sample that has all of the examples.
SCALE = 0.01


@dataclass
class FilledSystem:
    """A system with its sample on embedded engines, which live as long as its tests run."""

    system: System
    settings: Settings
    runner: asyncio.Runner
    stores: Stores
    # Ids in the sample that are new each time, by the names of arguments.
    known: dict[str, str] = field(default_factory=dict)
    recording: Recording = field(default_factory=Recording)

    def record(self) -> Transcript:
        """Return what an agent gets on the embedded engines."""
        server = build_server([self.recording.open_recorded(self.stores)])
        return self.runner.run(record_transcript(self.system, Client(server, mode="legacy"), self.known))

    def record_on_services(self, services: Settings) -> Transcript:
        """Return what an agent gets on the services, over HTTP."""
        settings = replace(services, environment=self.settings.environment, sql=self.settings.sql)

        @asynccontextmanager
        async def open_stores() -> AsyncIterator[list[Stores]]:
            async with open_systems([self.system], settings) as stores:
                await start_system(self.system, stores[0])
                await self.recording.copy(self.stores, stores[0])
                yield stores

        with serve_in_thread(build_http_app(self.system.title, open_stores, AgentGuard())) as url:
            return asyncio.run(record_transcript(self.system, Client(f"{url}/mcp"), self.known))


@pytest.fixture(scope="session")
def service_settings() -> Iterator[Settings]:
    """Run the services, and yield settings that name them."""
    with moto_endpoint() as aws, run_redis() as redis:
        yield Settings(
            tables=f"dynamodb+http://{aws}",
            queues=f"sqs+http://{aws}",
            objects=f"s3+http://{aws}",
            cache=redis.address,
        )


# Of the session, so that the tests of one system follow each other.
@pytest.fixture(scope="session", params=SYSTEMS)
def filled(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[FilledSystem]:
    """Yield each system with its sample."""
    system = load_system(request.param)
    settings = replace(
        MEMORY_SETTINGS,
        environment=f"t{os.getpid()}",
        sql=create_database(*system.schemas) if system.schemas else MEMORY_SETTINGS.sql,
        keys=f"file:{tmp_path_factory.mktemp('keys') / 'keys.json'}",
    )
    with asyncio.Runner() as runner:
        opening = open_systems([system], settings)
        [stores] = runner.run(opening.__aenter__())
        found = FilledSystem(system, settings, runner, stores)
        runner.run(_fill(found))
        try:
            yield found
        finally:
            runner.run(opening.__aexit__(None, None, None))


async def _fill(filled: FilledSystem) -> None:
    await start_system(filled.system, filled.stores)
    sample = find_demo(filled.system).sample
    assert sample is not None
    await sample(filled.stores, scale=SCALE, progress=lambda *_: None)
    if filled.system.name == "pagw":
        [newest, *_] = await filled.stores.run(monitoring.newest())
        filled.known["pagw_id"] = newest.pagw_id


@pytest.fixture(scope="session")
def embedded_transcript(filled: FilledSystem) -> Transcript:
    return filled.record()


@pytest.fixture(scope="module", params=["embedded", "services"])
def transcript(
    request: pytest.FixtureRequest, filled: FilledSystem, embedded_transcript: Transcript
) -> Transcript:
    """Return what an agent gets from each system, on each set of engines."""
    if request.param == "embedded":
        return embedded_transcript
    return filled.record_on_services(request.getfixturevalue("service_settings"))
