"""The sample data: the same on every run, with what the patterns' examples ask for, and without anybody's words."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import pytest

from holdfast import Scan, Stores, open_memory_stores, open_stores
from holdfast.config.settings import Settings
from holdfast.core.errors import InvalidRequest
from holdfast.guarantees import scan_files
from holdfast.reports.design.design_check import check_design
from richpanel.api.explain import explain_routing
from richpanel.demo.sample import CONVERSATIONS, load_sample
from richpanel.domain.feature_flags import FeatureFlags
from richpanel.domain.intents import load_examples
from richpanel.model import patterns
from richpanel.model.entities import ActionAudit, ConversationState, IdempotencyRecord
from richpanel.system import SYSTEM

R = TypeVar("R")
SMALL = 0.05
STORED = (IdempotencyRecord, ConversationState, ActionAudit)


class Standing:
    """A clock that stands still."""

    def now(self) -> float:
        return datetime(2026, 2, 4, 12, tzinfo=UTC).timestamp()


def in_memory(play: Callable[[Stores], Awaitable[R]]) -> R:
    async def played() -> R:
        async with open_memory_stores(SYSTEM, clock=Standing()) as stores:
            return await play(stores)

    return asyncio.run(played())


async def everything(stores: Stores) -> list[dict[str, Any]]:
    scans: list[Scan[Any]] = [entity.scan(reason="All that the sample wrote") for entity in STORED]
    found = [each.model_dump() for scan in scans async for each in stores.each(scan)]
    return sorted(found, key=str)


def test_the_sample_is_the_same_on_every_run() -> None:
    async def play(stores: Stores) -> list[dict[str, Any]]:
        await load_sample(stores, scale=SMALL)
        return await everything(stores)

    first = in_memory(play)

    assert first == in_memory(play)
    assert {each["conversation_id"] for each in first} == {
        f"c-{number}" for number in range(1, round(CONVERSATIONS * SMALL) + 1)
    }


def test_a_larger_sample_has_the_conversations_of_the_smaller_and_a_second_run_writes_what_is_missing() -> (
    None
):
    async def small(stores: Stores) -> list[dict[str, Any]]:
        await load_sample(stores, scale=SMALL)
        return await everything(stores)

    async def grown(stores: Stores) -> tuple[list[dict[str, Any]], int]:
        await load_sample(stores, scale=SMALL)
        await load_sample(stores, scale=2 * SMALL)
        return await everything(stores), await load_sample(stores, scale=2 * SMALL)

    less = in_memory(small)
    more, again = in_memory(grown)
    assert all(each in more for each in less)
    assert len(more) > len(less)
    assert again == 0


def test_nothing_in_the_sample_is_of_the_future_or_has_ended() -> None:
    async def play(stores: Stores) -> tuple[list[dict[str, Any]], float]:
        await load_sample(stores, scale=SMALL)
        return await everything(stores), stores.clock.now()

    found, now = in_memory(play)
    assert all(each["expires_at"] > now for each in found)
    states = [each for each in found if "updated_at" in each]
    assert states
    assert all(each["updated_at"].timestamp() <= now for each in states)


def test_the_sample_turns_no_switch() -> None:
    async def play(stores: Stores) -> FeatureFlags:
        await load_sample(stores, scale=SMALL)
        return FeatureFlags.from_item(
            await stores.run(patterns.read_switches()), datetime.fromtimestamp(stores.clock.now(), UTC)
        )

    assert in_memory(play).safe_mode


@pytest.mark.proves("RP-31")
def test_the_sample_explains_each_of_its_conversations() -> None:
    async def play(stores: Stores) -> list[str]:
        await load_sample(stores, scale=SMALL)
        view = stores.for_component("api")
        return [
            line
            for number in range(1, round(CONVERSATIONS * SMALL) + 1)
            for line in (await explain_routing(view, f"c-{number}")).lines
        ]

    lines = in_memory(play)
    assert any("did auto_reply" in line for line in lines)
    assert any("would have done" in line for line in lines)
    assert any("did escalate → risk" in line for line in lines)


def test_no_text_of_the_sample_is_kept(tmp_path: Path) -> None:
    settings = Settings(
        tables=f"sqlite:{tmp_path / 'tables.db'}", queues=f"sqlite:{tmp_path / 'queues.db'}",
        objects=f"file:{tmp_path / 'objects'}", keys=f"file:{tmp_path / 'keys.json'}", environment="test",
    )  # fmt: skip

    async def written() -> None:
        async with open_stores(SYSTEM, settings) as stores:
            await load_sample(stores, scale=SMALL)

    asyncio.run(written())
    long_enough = [each.text for each in load_examples() if len(each.text) > 20]
    assert scan_files([tmp_path], needles=long_enough) == []


def test_a_scale_that_is_not_above_zero_is_refused() -> None:
    async def play(stores: Stores) -> int:
        return await load_sample(stores, scale=0)

    with pytest.raises(InvalidRequest, match="above 0"):
        in_memory(play)


def test_the_examples_of_all_patterns_hold_on_the_sample() -> None:
    found = asyncio.run(check_design(SYSTEM))

    assert [each for each in found if each.severity != "info"] == []
