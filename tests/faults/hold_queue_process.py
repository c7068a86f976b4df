"""An executor in a process of its own, that ends itself by SIGKILL at one of its requests: for `test_hold_queue_killed.py`.

    python -m tests.faults.hold_queue_process TABLES PARTY SEED REQUESTS

It executes what is due until nothing waits any more. REQUESTS is how many requests to the store it lives for; 0 for ever.
Letters with an even number are looked up before they are repeated; of the others the party takes the key.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import httpx

from holdfast import Rate, Stores
from holdfast.errors import Conflict, PartyFailed, RetryLater
from holdfast.guarantees import HoldQueue
from holdfast.operations.tables import Operation
from holdfast.stores.tables.embedded import EmbeddedTables, open_tables
from tests.unit.guarantees.held_records import Letter, letter
from tests.unit.guarantees.once_records import count

# Long enough for a loaded machine: what a dead executor has sent must reach the party before its deadline.
ACT_S = 4.0
LEASE_S = 5.0
AT_ONCE = 4
PAUSE_S = 0.05
PAGE = 10
# Later than anything here is held.
LATER = timedelta(hours=1)

queue = HoldQueue(Letter, "HQ", rate=Rate("letter"), example=letter, payload=("text",), lease_s=LEASE_S)


def main(path: str, party: str, seed: str, requests: str) -> None:
    with open_tables(Path(path)) as tables:
        stores = Stores(_Deadly(tables, int(requests), Random(seed)))
        asyncio.run(_executed_off(stores, party))


async def _executed_off(stores: Stores, party: str) -> None:
    async with httpx.AsyncClient(base_url=party, headers={"X-Worker": str(os.getpid())}) as client:
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
    """The party's client: what it cannot know it says so."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def send(self, record: Letter, key: str) -> dict[str, Any]:
        asked = {"id": record.id, "text": record.text, "key": key}
        try:
            answer = await self._client.post("/letters", json=asked, timeout=ACT_S)
        except httpx.TransportError as error:
            raise PartyFailed(f"no answer: {error!r}", may_be_done=True) from error
        if answer.status_code != 200:
            raise PartyFailed(str(answer.status_code), may_be_done=answer.status_code != 429)
        outcome: dict[str, Any] = answer.json()
        return outcome

    async def look_up(self, record: Letter, key: str) -> dict[str, Any] | None:
        try:
            answer = await self._client.get("/letters", params={"key": key}, timeout=ACT_S)
        except httpx.TransportError as error:
            raise PartyFailed(f"no answer: {error!r}", may_be_done=False) from error
        if answer.status_code == 404:
            return None
        found: dict[str, Any] = answer.raise_for_status().json()
        return found


class _Deadly:
    """A store that ends its process at one of the requests, before it is done or after."""

    def __init__(self, tables: EmbeddedTables, requests: int, random: Random) -> None:
        self._tables, self._left, self._is_after = tables, requests, random.random() < 0.5

    async def run(self, operation: Operation[Any]) -> Any:
        self._left -= 1
        is_last = self._left == 0
        if is_last and not self._is_after:
            os.kill(os.getpid(), signal.SIGKILL)
        result = await self._tables.run(operation)
        if is_last:
            os.kill(os.getpid(), signal.SIGKILL)
        return result


if __name__ == "__main__":
    main(*sys.argv[1:])
