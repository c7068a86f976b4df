"""A worker process that does each job's effects once and kills itself at one of its store requests.

For `test_once_killed.py`. It works until every job is done: a count in tables, and a letter that an external
service sends, each once. `requests` is the number of requests to the store that it lives for; 0 means without
limit.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

from holdfast import Rate, Stores
from holdfast.core.errors import LeaseLost, RetryLater
from holdfast.guarantees import Claim, Completion, Once
from holdfast.stores.tables.embedded import open_tables
from tests.faults.self_killing import ACT_S, SelfKillingTables, ServiceClient
from tests.unit.guarantees.idempotency.once_records import EventRecord, count, make_event

LEASE_S = 5.0
AT_ONCE = 4
PAUSE_S = 0.05

once = Once(
    EventRecord, prefix="ON", rate=Rate("event"), example=make_event(), lease_s=LEASE_S, clock_margin_s=0.5
)


async def main(path: Path, service_url: str, jobs: int, seed: int, requests: int) -> None:
    random = Random(seed)
    with open_tables(path) as tables:
        stores = Stores(SelfKillingTables(tables, requests, is_after=random.random() < 0.5))
        await _work_off(stores, service_url, [f"job-{number}" for number in range(jobs)], random)


async def _work_off(stores: Stores, service_url: str, jobs: list[str], random: Random) -> None:
    """Do all jobs in a random order, several at a time."""
    random.shuffle(jobs)
    async with ServiceClient(service_url) as client:
        turns = asyncio.Semaphore(AT_ONCE)
        await asyncio.gather(*(_do_job(stores, Letters(client), job, turns) for job in jobs))


async def _do_job(stores: Stores, letters: Letters, job: str, turns: asyncio.Semaphore) -> None:
    """Do the job once, and retry it until it is done here or elsewhere."""
    while True:
        try:
            async with turns:
                await once.do(
                    stores,
                    make_event(f"{job}:event"),
                    lambda claim: _run_effects(stores, letters, job, claim),
                )
            return
        except (RetryLater, LeaseLost) as error:
            await asyncio.sleep(max(PAUSE_S, getattr(error, "retry_after_s", None) or 0.0))


async def _run_effects(stores: Stores, letters: Letters, job: str, claim: Claim[EventRecord]) -> object:
    """Count once, have a letter sent once, and complete the event with a count of its own."""

    async def counted(inner: Claim[EventRecord]) -> None:
        await inner.complete(count(f"{job}:counted"))

    await once.do(stores, make_event(f"{job}:count"), counted)
    done: Completion[EventRecord] = await once.call_external(
        stores,
        make_event(f"{job}:letter"),
        act=letters.send,
        look_up=letters.look_up,
        act_s=ACT_S,
        writes=lambda outcome: [count(f"{job}:recorded")],
    )
    await claim.complete(count(f"{job}:handled"), result=done.result)
    return None


class Letters:
    """Client for letters that the service sends, each requested by its key alone."""

    def __init__(self, client: ServiceClient) -> None:
        self._client = client

    async def send(self, key: str) -> dict[str, Any]:
        return await self._client.post({"key": key})

    async def look_up(self, key: str) -> dict[str, Any] | None:
        return await self._client.find(key)
