"""Tests of the sample data on stores in memory: the same on every run, valid, and found by the patterns."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from agenticpm.domain.contents import ArtefactType, validate_content
from agenticpm.model import artefacts, patterns
from agenticpm.model.entities import ProjectStatus, table
from agenticpm.model.patterns import EXAMPLE_PROJECT
from agenticpm.system import SYSTEM
from holdfast import Stores, open_memory_stores
from holdfast.core.errors import InvalidRequest
from holdfast.operations.tables import Scan
from holdfast_demo.agenticpm.sample import PROJECTS, load_sample
from tests.systems.agenticpm.unit.samples import ManualClock

SMALL = 0.25


@pytest.fixture
async def stores() -> AsyncIterator[Stores]:
    async with open_memory_stores(SYSTEM, clock=ManualClock()) as stores:
        yield stores


async def scan_table(stores: Stores) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    start: Any = None
    while True:
        page = await stores.tables.run(Scan(table.name, start_key=start))
        found += [dict(each) for each in page.items or ()]
        start = page.last_key
        if start is None:
            return found


async def test_sample_has_the_same_items_on_every_run() -> None:
    """The items are compared by their partition and kind."""
    first, second = await _count_sample(), await _count_sample()
    assert first == second
    assert sum(name.endswith("METADATA") for name in first) == round(PROJECTS * SMALL)


async def _count_sample() -> Counter[str]:
    async with open_memory_stores(SYSTEM, clock=ManualClock()) as stores:
        await load_sample(stores, scale=SMALL)
        return Counter(f"{each['PK']} {str(each['SK']).split('#')[0]}" for each in await scan_table(stores))


async def test_second_run_writes_nothing_and_a_larger_one_only_the_rest(stores: Stores) -> None:
    first, again, more = (
        await load_sample(stores, scale=SMALL),
        await load_sample(stores, scale=SMALL),
        await load_sample(stores, scale=2 * SMALL),
    )
    assert first > 100 and again == 0 and more > 0


async def test_artefacts_are_valid_and_nothing_has_expired(stores: Stores) -> None:
    await load_sample(stores, scale=SMALL)
    now = stores.clock.now()
    items = await scan_table(stores)
    assert all(each["TTL"] > now for each in items if "TTL" in each)
    active = await stores.all(patterns.projects_in())
    assert active
    for project in active:
        kept = await stores.all(patterns.artefacts(project.id))
        assert {each.type for each in kept} == set(ArtefactType)
        for each in kept:
            validate_content(each.type, await artefacts.load_content(stores, each))


async def test_patterns_find_items_in_the_sample(stores: Stores) -> None:
    await load_sample(stores)
    assert await stores.run(patterns.project(EXAMPLE_PROJECT)) is not None
    assert len(await stores.run(patterns.projects_in(ProjectStatus.paused))) == PROJECTS // 6
    assert len(await stores.all(patterns.escalations_in())) == PROJECTS
    assert len(await stores.run(patterns.project_actions(EXAMPLE_PROJECT))) > 0
    assert len(await stores.run(patterns.agent_configs())) == 4
    # Executed actions no longer wait.
    assert len(await stores.run(patterns.held_actions())) == 0


async def test_rejects_a_scale_that_is_not_positive(stores: Stores) -> None:
    with pytest.raises(InvalidRequest, match="above 0"):
        await load_sample(stores, scale=0)
