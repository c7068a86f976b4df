"""Sample data, loaded in memory: the same on every run, enough for pattern examples, without texts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import pytest

from holdfast import Stores, open_memory_stores, open_stores
from holdfast.config.settings import Settings
from holdfast.core.errors import InvalidRequest
from holdfast.guarantees import scan_files
from holdfast.model.entities import Scan
from holdfast.reports.design.design_check import check_design
from holdfast_demo.richpanel.sample import CONVERSATIONS, load_sample
from richpanel.api.explain import explain_routing
from richpanel.domain.feature_flags import FeatureFlags
from richpanel.domain.intents import load_examples
from richpanel.model import patterns
from richpanel.model.entities import ActionAudit, ConversationState, IdempotencyRecord
from richpanel.system import SYSTEM

R = TypeVar("R")
SMALL = 0.05
STORED = (IdempotencyRecord, ConversationState, ActionAudit)


class FixedClock:
    """Clock that never moves."""

    def now(self) -> float:
        return datetime(2026, 2, 4, 12, tzinfo=UTC).timestamp()


async def run_in_memory(scenario: Callable[[Stores], Awaitable[R]]) -> R:
    """Run the scenario with in-memory stores and a fixed clock."""

    async with open_memory_stores(SYSTEM, clock=FixedClock()) as stores:
        return await scenario(stores)


async def read_everything(stores: Stores) -> list[dict[str, Any]]:
    """Return all records, states and audit entries, sorted."""
    scans: list[Scan[Any]] = [entity.scan(reason="All that the sample wrote") for entity in STORED]
    found = [each.model_dump() for scan in scans async for each in stores.each(scan)]
    return sorted(found, key=str)


async def test_sample_is_the_same_on_every_run() -> None:
    async def scenario(stores: Stores) -> list[dict[str, Any]]:
        await load_sample(stores, scale=SMALL)
        return await read_everything(stores)

    first = await run_in_memory(scenario)

    assert first == await run_in_memory(scenario)
    assert {each["conversation_id"] for each in first} == {
        f"c-{number}" for number in range(1, round(CONVERSATIONS * SMALL) + 1)
    }


async def test_larger_sample_contains_the_smaller_and_a_rerun_completes_it() -> None:
    async def load_small(stores: Stores) -> list[dict[str, Any]]:
        await load_sample(stores, scale=SMALL)
        return await read_everything(stores)

    async def load_grown(stores: Stores) -> tuple[list[dict[str, Any]], int]:
        await load_sample(stores, scale=SMALL)
        await load_sample(stores, scale=2 * SMALL)
        return await read_everything(stores), await load_sample(stores, scale=2 * SMALL)

    less = await run_in_memory(load_small)
    more, again = await run_in_memory(load_grown)
    assert all(each in more for each in less)
    assert len(more) > len(less)
    assert again == 0


async def test_sample_has_no_future_or_expired_items() -> None:
    async def scenario(stores: Stores) -> tuple[list[dict[str, Any]], float]:
        await load_sample(stores, scale=SMALL)
        return await read_everything(stores), stores.clock.now()

    found, now = await run_in_memory(scenario)
    assert all(each["expires_at"] > now for each in found)
    states = [each for each in found if "updated_at" in each]
    assert states
    assert all(each["updated_at"].timestamp() <= now for each in states)


async def test_sample_leaves_safe_mode_on() -> None:
    async def scenario(stores: Stores) -> FeatureFlags:
        await load_sample(stores, scale=SMALL)
        return FeatureFlags.from_item(await stores.run(patterns.read_switches()), stores.now())

    assert (await run_in_memory(scenario)).safe_mode


@pytest.mark.proves("RP-31")
async def test_sample_explains_each_conversation() -> None:
    async def scenario(stores: Stores) -> list[str]:
        await load_sample(stores, scale=SMALL)
        view = stores.for_component("api")
        return [
            line
            for number in range(1, round(CONVERSATIONS * SMALL) + 1)
            for line in (await explain_routing(view, f"c-{number}")).lines
        ]

    lines = await run_in_memory(scenario)
    assert any("did auto_reply" in line for line in lines)
    assert any("would have done" in line for line in lines)
    assert any("did escalate → risk" in line for line in lines)


async def test_sample_stores_no_text(tmp_path: Path) -> None:
    settings = Settings(
        tables=f"sqlite:{tmp_path / 'tables.db'}", queues=f"sqlite:{tmp_path / 'queues.db'}",
        objects=f"file:{tmp_path / 'objects'}", keys=f"file:{tmp_path / 'keys.json'}", environment="test",
    )  # fmt: skip

    async with open_stores(SYSTEM, settings) as stores:
        await load_sample(stores, scale=SMALL)
    long_enough = [each.text for each in load_examples() if len(each.text) > 20]
    assert scan_files([tmp_path], needles=long_enough) == []


async def test_refuses_a_scale_of_zero() -> None:
    async def scenario(stores: Stores) -> int:
        return await load_sample(stores, scale=0)

    with pytest.raises(InvalidRequest, match="above 0"):
        await run_in_memory(scenario)


async def test_pattern_examples_hold_on_the_sample() -> None:
    found = await check_design(SYSTEM)

    assert [each for each in found if each.severity != "info"] == []
