"""Wake-up of the ingester by PostgreSQL NOTIFY: an upload is ingested although the clock does not move."""

from __future__ import annotations

import asyncio
from dataclasses import replace as changed
from uuid import UUID

import pytest

from holdfast import Stores, open_stores
from holdfast.core.errors import ConditionFailed
from holdfast.runtime import WorkerGroup, create_buckets
from holdfast.runtime.factory import MEMORY_SETTINGS
from tests.postgres import create_database
from tests.systems.tripcortex.contract.policies.knowledge_base import Base, HandClock
from tripcortex.model.policies import patterns
from tripcortex.model.policies.schema import NewPolicy, PolicyStatus, tripcortex
from tripcortex.policies.ingestion import Upload, load_policy, replace, upload
from tripcortex.policies.uploads import get_now
from tripcortex.system import INGESTER, SYSTEM

GIVEN = Upload("policy.md", b"# Cabins\n\nFly economy.")
WAIT_S = 20.0


async def wait_until_read(stores: Stores, policy_id: UUID) -> None:
    """Wait until the policy is ready."""
    async with asyncio.timeout(60):
        while (await load_policy(stores, policy_id)).status is not PolicyStatus.ready:
            await asyncio.sleep(0.02)


@pytest.mark.proves("TC-21")
async def test_upload_is_ingested_without_waiting_for_the_next_poll() -> None:
    settings = changed(MEMORY_SETTINGS, sql=create_database(tripcortex))

    async with open_stores(SYSTEM, settings, clock=HandClock()) as stores:
        await create_buckets(stores, SYSTEM.buckets)
        async with WorkerGroup(stores, [INGESTER]) as work:
            assert await work.wait_until_ready()
            policy = await upload(stores, GIVEN)
            await wait_until_read(stores, policy.id)
            # The ingester polls at its start and when it begins to listen, and never again: the clock
            # does not move.
            for _ in range(3):
                policy = await replace(stores, policy.id, GIVEN)
                await wait_until_read(stores, policy.id)
        assert (await load_policy(stores, policy.id)).serves


def test_failed_or_silent_upload_does_not_wake_the_ingester(base: Base) -> None:
    """Only the two normal uploads notify the channel; `wakes=False` and a failed insert do not."""

    async def story() -> None:
        async with base.stores.listen(patterns.UPLOAD_CHANNEL) as heard:
            policy = await upload(base.stores, GIVEN)
            assert await heard.wait(WAIT_S) == ""
            await upload(base.stores, GIVEN, wakes=False)
            nothing = NewPolicy(id=UUID(int=7), source_s3_uri="s3://b/k", file_name="a.md")
            with pytest.raises(ConditionFailed):
                await base.stores.run(patterns.create_edition(nothing, get_now(base.stores), UUID(int=8)))
            await replace(base.stores, policy.id, GIVEN)
            assert await heard.wait(WAIT_S) == ""
            assert await heard.wait(0) is None

    base.run(story())
