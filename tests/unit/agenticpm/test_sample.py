"""The sample data: the same on every run, valid as all that is written, and with what the patterns' examples ask for."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, TypeVar

import pytest

from agenticpm.demo.sample import PROJECTS, load_sample
from agenticpm.domain.contents import ArtefactType, validate_content
from agenticpm.model import artefacts, patterns
from agenticpm.model.entities import ProjectStatus, table
from agenticpm.model.patterns import EXAMPLE_PROJECT
from agenticpm.system import SYSTEM
from holdfast import Stores, open_memory_stores
from holdfast.core.errors import InvalidRequest
from holdfast.operations.tables import Scan
from holdfast.reports.design.design_check import check_design

R = TypeVar("R")
SMALL = 0.25


class Standing:
    """A clock that stands still."""

    def now(self) -> float:
        return datetime(2026, 2, 4, 1, tzinfo=UTC).timestamp()


def in_memory(play: Callable[[Stores], Awaitable[R]]) -> R:
    async def played() -> R:
        async with open_memory_stores(SYSTEM, clock=Standing()) as stores:
            return await play(stores)

    return asyncio.run(played())


async def everything(stores: Stores) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    start: Any = None
    while True:
        page = await stores.tables.run(Scan(table.name, start_key=start))
        found += [dict(each) for each in page.items or ()]
        start = page.last_key
        if start is None:
            return found


def test_the_sample_is_the_same_on_every_run_but_for_its_ids() -> None:
    async def play(stores: Stores) -> Counter[str]:
        await load_sample(stores, scale=SMALL)
        return Counter(f"{each['PK']} {str(each['SK']).split('#')[0]}" for each in await everything(stores))

    first = in_memory(play)
    assert first == in_memory(play)
    assert sum(name.endswith("METADATA") for name in first) == round(PROJECTS * SMALL)


def test_a_second_run_writes_nothing_and_a_larger_one_what_is_missing() -> None:
    async def play(stores: Stores) -> tuple[int, int, int]:
        return (
            await load_sample(stores, scale=SMALL),
            await load_sample(stores, scale=SMALL),
            await load_sample(stores, scale=2 * SMALL),
        )

    first, again, more = in_memory(play)
    assert first > 100 and again == 0 and more > 0


def test_its_artefacts_keep_their_schemas_and_nothing_in_it_has_ended() -> None:
    async def play(stores: Stores) -> None:
        await load_sample(stores, scale=SMALL)
        now = stores.clock.now()
        items = await everything(stores)
        assert all(each["TTL"] > now for each in items if "TTL" in each)
        active = await stores.all(patterns.projects_in())
        assert active
        for project in active:
            kept = await stores.all(patterns.artefacts(project.id))
            assert {each.type for each in kept} == set(ArtefactType)
            for each in kept:
                validate_content(each.type, await artefacts.load_content(stores, each))

    in_memory(play)


def test_the_documents_patterns_find_something_in_it() -> None:
    async def play(stores: Stores) -> None:
        await load_sample(stores)
        assert await stores.run(patterns.project(EXAMPLE_PROJECT)) is not None
        assert len(await stores.run(patterns.projects_in(ProjectStatus.paused))) == PROJECTS // 6
        assert len(await stores.all(patterns.escalations_in())) == PROJECTS
        assert len(await stores.run(patterns.project_actions(EXAMPLE_PROJECT))) > 0
        assert len(await stores.run(patterns.agent_configs())) == 4
        # What was done waits no more.
        assert len(await stores.run(patterns.held_actions())) == 0

    in_memory(play)


def test_a_scale_that_is_not_above_zero_is_refused() -> None:
    async def play(stores: Stores) -> int:
        return await load_sample(stores, scale=0)

    with pytest.raises(InvalidRequest, match="above 0"):
        in_memory(play)


def test_the_examples_of_all_patterns_hold_on_the_sample() -> None:
    found = asyncio.run(check_design(SYSTEM))

    assert [each for each in found if each.severity == "error"] == []
