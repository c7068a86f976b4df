"""What the workers do again and again. Several processes may run each: leases and conditions keep it one effect."""

from __future__ import annotations

from typing import Final

from agenticpm import actions, digest, escalations, integrations
from agenticpm.loop import Loop
from agenticpm.model import contents
from agenticpm.parties import Parties
from agenticpm.writers import open_writers
from holdfast import Stores, sweep_buckets

# How often it is looked whether something is due; how often the loop goes round is the agent's own setting.
LOOP_S: Final = 30.0
DAILY_S: Final = 300.0
DUE_S: Final = 5.0
EXPIRY_S: Final = 60.0
SWEEP_S: Final = 3600.0


async def tick(stores: Stores) -> None:
    await integrations.note_stand_ins(stores)
    async with Parties(stores) as parties, open_writers(stores) as writers:
        await Loop(stores, parties, writers).tick()


async def daily(stores: Stores) -> None:
    await digest.daily(stores)


async def execute_due(stores: Stores) -> None:
    async with Parties(stores) as parties:
        await actions.execute_due(stores, parties)


async def expire(stores: Stores) -> None:
    await escalations.expire_due(stores)


async def sweep(stores: Stores) -> None:
    """Ends what has lived its time, where the bucket is a folder. Nothing else would."""
    await sweep_buckets(stores, (contents,))
