"""An executor in a process of its own, that ends itself by SIGKILL at one of its requests: for `test_hold_queue_killed.py`.

    python -m tests.faults.hold_queue_process TABLES PARTY SEED REQUESTS

It executes what is due until nothing waits any more. REQUESTS is how many requests to the store it lives for; 0 for ever.
Letters with an even number are looked up before they are repeated; of the others the party takes the key.
"""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

from holdfast import Rate, Stores
from holdfast.core.errors import Conflict, RetryLater
from holdfast.guarantees import DelayedActions
from holdfast.stores.tables.embedded import open_tables
from tests.unit.guarantees.held_records import Letter, letter
from tests.unit.guarantees.once_records import count

from .deadly import ACT_S, Deadly, PartyClient

LEASE_S = 5.0
AT_ONCE = 4
PAUSE_S = 0.05
PAGE = 10
# Later than anything here is held.
LATER = timedelta(hours=1)

queue = DelayedActions(Letter, "HQ", rate=Rate("letter"), example=letter, payload=("text",), lease_s=LEASE_S)


def main(path: str, party: str, seed: str, requests: str) -> None:
    with open_tables(Path(path)) as tables:
        stores = Stores(Deadly(tables, int(requests), is_after=Random(seed).random() < 0.5))
        asyncio.run(_executed_off(stores, party))


async def _executed_off(stores: Stores, party: str) -> None:
    async with PartyClient(party) as client:
        office, turns = Office(client), asyncio.Semaphore(AT_ONCE)
        while await _listed(stores, LATER):
            due = await _listed(stores, timedelta())
            await asyncio.gather(*(_tried(stores, office, each, turns) for each in due))
            await asyncio.sleep(PAUSE_S)


async def _listed(stores: Stores, ahead: timedelta) -> list[Letter]:
    now, found, after = datetime.fromtimestamp(stores.clock.now(), UTC) + ahead, list[Letter](), None
    while True:
        page = await stores.run(queue.due(now, PAGE, after))
        found += page.items
        if (after := page.cursor) is None:
            return found


async def _tried(stores: Stores, office: Office, record: Letter, turns: asyncio.Semaphore) -> None:
    is_looked_up = int(record.id.removeprefix("l-")) % 2 == 0
    ways: dict[str, Any] = {"look_up": office.look_up} if is_looked_up else {"takes_key": True}
    try:
        async with turns:
            await queue.execute(
                stores,
                record,
                act=office.send,
                act_s=ACT_S,
                writes=lambda outcome: [count(f"{record.id} recorded")],
                **ways,
            )
    except (RetryLater, Conflict):
        pass  # it comes again, is another's, or was cancelled


class Office:
    """Letters that the party sends, with their texts."""

    def __init__(self, party: PartyClient) -> None:
        self._party = party

    async def send(self, record: Letter, key: str) -> dict[str, Any]:
        return await self._party.post({"id": record.id, "text": record.text, "key": key})

    async def look_up(self, record: Letter, key: str) -> dict[str, Any] | None:
        return await self._party.find(key)


if __name__ == "__main__":
    main(*sys.argv[1:])
