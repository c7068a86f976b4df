"""A worker in a process of its own, that ends itself by SIGKILL at one of its requests: for `test_once_killed.py`.

    python -m tests.faults.once_process TABLES PARTY JOBS SEED REQUESTS

It works until every job is done: a count in tables, and a letter that an outside party sends, each once. REQUESTS is how
many requests to the store it lives for; 0 for ever.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from random import Random
from typing import Any

import httpx

from holdfast import Rate, Stores
from holdfast.errors import LeaseLost, PartyFailed, RetryLater
from holdfast.guarantees import Claim, Done, Once
from holdfast.operations.tables import Operation
from holdfast.stores.tables.embedded import EmbeddedTables, open_tables
from tests.unit.guarantees.once_records import EventRecord, count, event

# Long enough for a loaded machine: what a dead worker has sent must reach the party before its deadline.
ACT_S = 4.0
LEASE_S = 5.0
AT_ONCE = 4
PAUSE_S = 0.05

once = Once(EventRecord, "ON", rate=Rate("event"), example=event(), lease_s=LEASE_S)


def main(path: str, party: str, jobs: str, seed: str, requests: str) -> None:
    random = Random(seed)
    with open_tables(Path(path)) as tables:
        stores = Stores(_Deadly(tables, int(requests), random))
        asyncio.run(_worked_off(stores, party, [f"job-{number}" for number in range(int(jobs))], random))


async def _worked_off(stores: Stores, party: str, jobs: list[str], random: Random) -> None:
    random.shuffle(jobs)
    async with httpx.AsyncClient(base_url=party, headers={"X-Worker": str(os.getpid())}) as client:
        turns = asyncio.Semaphore(AT_ONCE)
        await asyncio.gather(*(_until_done(stores, Letters(client), job, turns) for job in jobs))


async def _until_done(stores: Stores, letters: Letters, job: str, turns: asyncio.Semaphore) -> None:
    while True:
        try:
            async with turns:
                await once.do(
                    stores, event(f"{job}:event"), lambda claim: _effects(stores, letters, job, claim)
                )
            return
        except (RetryLater, LeaseLost) as error:
            await asyncio.sleep(max(PAUSE_S, getattr(error, "retry_after_s", None) or 0.0))


async def _effects(stores: Stores, letters: Letters, job: str, claim: Claim[EventRecord]) -> object:
    """Two effects of one event, and then its own: the letter, a count of it, and a count of the event."""

    async def counted(inner: Claim[EventRecord]) -> None:
        await inner.complete(count(f"{job}:counted"))

    await once.do(stores, event(f"{job}:count"), counted)
    done: Done[EventRecord] = await once.outside(
        stores,
        event(f"{job}:letter"),
        act=letters.send,
        look_up=letters.look_up,
        act_s=ACT_S,
        writes=lambda outcome: [count(f"{job}:recorded")],
    )
    await claim.complete(count(f"{job}:handled"), result=done.result)
    return None


class Letters:
    """The party's client: what it cannot know it says so."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def send(self, key: str) -> dict[str, Any]:
        try:
            answer = await self._client.post("/letters", json={"key": key}, timeout=ACT_S)
        except httpx.TransportError as error:
            raise PartyFailed(f"no answer: {error!r}", may_be_done=True) from error
        if answer.status_code != 200:
            raise PartyFailed(str(answer.status_code), may_be_done=answer.status_code != 429)
        outcome: dict[str, Any] = answer.json()
        return outcome

    async def look_up(self, key: str) -> dict[str, Any] | None:
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
