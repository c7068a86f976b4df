"""The sample data: the same on every run, with what the patterns' examples ask for, and without anybody's words."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import pytest

from holdfast import Scan, Stores, open_stores, stores_in_memory
from holdfast.errors import InvalidRequest
from holdfast.guarantees import scan_files
from holdfast.reports.design_check import check_design
from holdfast.settings import Settings
from richpanel import SYSTEM, patterns
from richpanel.explaining import why
from richpanel.intents import examples
from richpanel.model import ActionAudit, ConversationState, IdempotencyRecord
from richpanel.sample import CONVERSATIONS, sample
from richpanel.switches import SwitchPosition

R = TypeVar("R")
SMALL = 0.05
STORED = (IdempotencyRecord, ConversationState, ActionAudit)


class Standing:
    """A clock that stands still."""

    def now(self) -> float:
        return datetime(2026, 2, 4, 12, tzinfo=UTC).timestamp()


def in_memory(play: Callable[[Stores], Awaitable[R]]) -> R:
    async def played() -> R:
        async with stores_in_memory(SYSTEM, clock=Standing()) as stores:
            return await play(stores)

    return asyncio.run(played())


async def everything(stores: Stores) -> list[dict[str, Any]]:
    scans: list[Scan[Any]] = [entity.scan(reason="All that the sample wrote") for entity in STORED]
    found = [each.model_dump() for scan in scans async for each in stores.each(scan)]
    return sorted(found, key=str)


def test_the_sample_is_the_same_on_every_run() -> None:
    async def play(stores: Stores) -> list[dict[str, Any]]:
        await sample(stores, scale=SMALL)
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
        await sample(stores, scale=SMALL)
        return await everything(stores)

    async def grown(stores: Stores) -> tuple[list[dict[str, Any]], int]:
        await sample(stores, scale=SMALL)
        await sample(stores, scale=2 * SMALL)
        return await everything(stores), await sample(stores, scale=2 * SMALL)

    less = in_memory(small)
    more, again = in_memory(grown)
    assert all(each in more for each in less)
    assert len(more) > len(less)
    assert again == 0


def test_nothing_in_the_sample_is_of_the_future_or_has_ended() -> None:
    async def play(stores: Stores) -> tuple[list[dict[str, Any]], float]:
        await sample(stores, scale=SMALL)
        return await everything(stores), stores.clock.now()

    found, now = in_memory(play)
    assert all(each["expires_at"] > now for each in found)
    states = [each for each in found if "updated_at" in each]
    assert states
    assert all(each["updated_at"].timestamp() <= now for each in states)


def test_the_sample_turns_no_switch() -> None:
    async def play(stores: Stores) -> SwitchPosition:
        await sample(stores, scale=SMALL)
        return SwitchPosition.read(
            await stores.run(patterns.read_switches()), datetime.fromtimestamp(stores.clock.now(), UTC)
        )

    assert in_memory(play).safe_mode


@pytest.mark.proves("RP-31")
def test_the_sample_explains_each_of_its_conversations() -> None:
    async def play(stores: Stores) -> list[str]:
        await sample(stores, scale=SMALL)
        view = stores.for_component("api")
        return [
            line
            for number in range(1, round(CONVERSATIONS * SMALL) + 1)
            for line in (await why(view, f"c-{number}")).lines
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
            await sample(stores, scale=SMALL)

    asyncio.run(written())
    long_enough = [each.text for each in examples() if len(each.text) > 20]
    assert scan_files([tmp_path], needles=long_enough) == []


def test_a_scale_that_is_not_above_zero_is_refused() -> None:
    async def play(stores: Stores) -> int:
        return await sample(stores, scale=0)

    with pytest.raises(InvalidRequest, match="above 0"):
        in_memory(play)


def test_the_examples_of_all_patterns_hold_on_the_sample() -> None:
    found = asyncio.run(check_design(SYSTEM))

    assert [each for each in found if each.severity != "info"] == []
