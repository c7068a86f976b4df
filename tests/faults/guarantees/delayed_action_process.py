"""A process that executes due delayed actions and kills itself at one of its store requests.

For `test_delayed_actions_killed.py`. It executes due records until nothing waits. `requests` is the number of
requests to the store that it lives for; 0 means without limit. Letters with an even number are looked up
before they are repeated; for the others the service takes the key.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

from holdfast import Rate, Stores
from holdfast.core.errors import Conflict, RetryLater
from holdfast.guarantees import DelayedActions
from holdfast.stores.tables.embedded import open_tables
from tests.faults.self_killing import ACT_S, SelfKillingTables, ServiceClient
from tests.unit.guarantees.delayed_actions.delayed_letters import Letter, make_letter
from tests.unit.guarantees.idempotency.once_records import count

LEASE_S = 5.0
AT_ONCE = 4
PAUSE_S = 0.05
PAGE = 10
# Later than the end of any hold here.
LATER = timedelta(hours=1)

queue = DelayedActions(
    Letter,
    prefix="HQ",
    rate=Rate("letter"),
    example=make_letter,
    payload=("text",),
    lease_s=LEASE_S,
    clock_margin_s=0.5,
)


async def main(path: Path, service_url: str, seed: int, requests: int) -> None:
    with open_tables(path) as tables:
        stores = Stores(SelfKillingTables(tables, requests, is_after=Random(seed).random() < 0.5))
        await _execute_all(stores, service_url)


async def _execute_all(stores: Stores, service_url: str) -> None:
    """Execute due records, several at a time, until none is waiting."""
    async with ServiceClient(service_url) as client:
        office, turns = Office(client), asyncio.Semaphore(AT_ONCE)
        while await _list_due(stores, LATER):
            due = await _list_due(stores, timedelta())
            await asyncio.gather(*(_try_execute(stores, office, each, turns) for each in due))
            await asyncio.sleep(PAUSE_S)


async def _list_due(stores: Stores, ahead: timedelta) -> list[Letter]:
    """Return the records that are due now, or will be within `ahead`."""
    now, found, after = stores.now() + ahead, list[Letter](), None
    while True:
        page = await stores.run(queue.pattern_set.due(now, PAGE, after))
        found += page.items
        if (after := page.cursor) is None:
            return found


async def _try_execute(stores: Stores, office: Office, record: Letter, turns: asyncio.Semaphore) -> None:
    """Execute the record when it is its turn; a conflict or a retryable failure is left for a later round."""
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
        pass  # it is retried, belongs to another executor, or was cancelled


class Office:
    """Client for letters that the service sends, with their texts."""

    def __init__(self, client: ServiceClient) -> None:
        self._client = client

    async def send(self, record: Letter, key: str) -> dict[str, Any]:
        return await self._client.post({"id": record.id, "text": record.text, "key": key})

    async def look_up(self, record: Letter, key: str) -> dict[str, Any] | None:
        return await self._client.find(key)
