"""A worker in a process of its own, that ends itself by SIGKILL at one of its requests: for `test_once_killed.py`.

    python -m tests.faults.once_process TABLES PARTY JOBS SEED REQUESTS

It works until every job is done: a count in tables, and a letter that an outside party sends, each once. REQUESTS is how
many requests to the store it lives for; 0 for ever.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from random import Random
from typing import Any

from holdfast import Rate, Stores
from holdfast.core.errors import LeaseLost, RetryLater
from holdfast.guarantees import Claim, Completion, Once
from holdfast.stores.tables.embedded import open_tables
from tests.unit.guarantees.once_records import EventRecord, count, event

from .deadly import ACT_S, Deadly, PartyClient

LEASE_S = 5.0
AT_ONCE = 4
PAUSE_S = 0.05

once = Once(EventRecord, "ON", rate=Rate("event"), example=event(), lease_s=LEASE_S)


def main(path: str, party: str, jobs: str, seed: str, requests: str) -> None:
    random = Random(seed)
    with open_tables(Path(path)) as tables:
        stores = Stores(Deadly(tables, int(requests), is_after=random.random() < 0.5))
        asyncio.run(_worked_off(stores, party, [f"job-{number}" for number in range(int(jobs))], random))


async def _worked_off(stores: Stores, party: str, jobs: list[str], random: Random) -> None:
    random.shuffle(jobs)
    async with PartyClient(party) as client:
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
    done: Completion[EventRecord] = await once.call_external(
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
    """Letters that the party sends, each asked for by its key alone."""

    def __init__(self, party: PartyClient) -> None:
        self._party = party

    async def send(self, key: str) -> dict[str, Any]:
        return await self._party.post({"key": key})

    async def look_up(self, key: str) -> dict[str, Any] | None:
        return await self._party.find(key)


if __name__ == "__main__":
    main(*sys.argv[1:])
