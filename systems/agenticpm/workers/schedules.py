"""The scheduled functions of the workers and their periods in seconds.

Several processes may run each: leases and conditions ensure one effect.
"""

from __future__ import annotations

from typing import Final

from agenticpm.integrations.clients import IntegrationClients
from agenticpm.model import integration_settings
from agenticpm.model.entities import contents
from agenticpm.workers import actions, digest, escalations
from agenticpm.workers.loop import Loop
from agenticpm.workers.writers import open_writers
from holdfast import Stores
from holdfast.runtime import sweep_buckets

# Polling periods. The interval of the cycles themselves is a setting of the agent.
LOOP_S: Final = 30.0
DAILY_S: Final = 300.0
DUE_S: Final = 5.0
EXPIRY_S: Final = 60.0
SWEEP_S: Final = 3600.0


async def run_loop(stores: Stores) -> None:
    """Record the sandboxes in use and run the due cycles once."""
    await integration_settings.record_sandboxes(stores)
    async with IntegrationClients(stores) as clients, open_writers(stores) as writers:
        await Loop(stores, clients, writers).tick()


async def make_daily_digest(stores: Stores) -> None:
    """Make the digest of the day if it is due."""
    await digest.make_daily_digest(stores)


async def execute_due(stores: Stores) -> None:
    """Execute the due actions of all projects once."""
    async with IntegrationClients(stores) as clients:
        await actions.execute_due(stores, clients)


async def expire_escalations(stores: Stores) -> None:
    """Expire the escalations of all projects that are past their time."""
    await escalations.expire_due(stores)


async def sweep_contents(stores: Stores) -> None:
    """Delete expired objects if the bucket is a folder, which has no lifecycle rules of its own."""
    await sweep_buckets(stores, (contents,))
