"""Schedules of the workers. Several processes may run each: leases and conditions ensure one effect."""

from __future__ import annotations

from typing import Final

from agenticpm.integrations.clients import IntegrationClients
from agenticpm.model import escalations, integration_settings
from agenticpm.model.entities import contents
from agenticpm.workers import actions, digest
from agenticpm.workers.loop import Loop
from agenticpm.workers.writers import open_writers
from holdfast import Stores, sweep_buckets

# Polling periods. The interval of the cycles themselves is a setting of the agent.
LOOP_S: Final = 30.0
DAILY_S: Final = 300.0
DUE_S: Final = 5.0
EXPIRY_S: Final = 60.0
SWEEP_S: Final = 3600.0


async def run_loop(stores: Stores) -> None:
    await integration_settings.record_sandboxes(stores)
    async with IntegrationClients(stores) as parties, open_writers(stores) as writers:
        await Loop(stores, parties, writers).tick()


async def make_daily_digest(stores: Stores) -> None:
    await digest.make_daily_digest(stores)


async def execute_due(stores: Stores) -> None:
    async with IntegrationClients(stores) as parties:
        await actions.execute_due(stores, parties)


async def expire_escalations(stores: Stores) -> None:
    await escalations.expire_due(stores)


async def sweep_contents(stores: Stores) -> None:
    """Delete expired objects if the bucket is a folder, which has no lifecycle rules of its own."""
    await sweep_buckets(stores, (contents,))
