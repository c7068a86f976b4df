"""Tests of the daily budget on stores in memory: exact under contention, per local day, in levels."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from agenticpm.domain.contents import ArtefactType
from agenticpm.domain.tickets import Draft, Writing
from agenticpm.model import agent_settings, budget, patterns
from agenticpm.model.budget import BudgetLevel
from agenticpm.model.entities import Event
from holdfast import Stores
from holdfast.core.errors import Conflict
from tests.systems.agenticpm.unit.samples import ManualClock

# 4 February in Sydney, 21:00.
EVENING = datetime(2026, 2, 4, 10, tzinfo=UTC)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(EVENING)


@pytest.fixture
async def stores(stores: Stores) -> Stores:
    await agent_settings.seed(stores)
    return stores


async def get_level(stores: Stores) -> BudgetLevel:
    return (await budget.load_state(stores, await agent_settings.load(stores))).level


async def list_events(stores: Stores) -> list[Event]:
    """Return the events of a reached ceiling."""
    return [
        each for each in await stores.all(patterns.recent_events()) if each.event_type == "budget_reached"
    ]


@pytest.mark.proves("AP-X20")
async def test_level_falls_from_full_to_reduced_to_rules(stores: Stores) -> None:
    levels = [await get_level(stores)]
    for usd in ("0.263999", "0.000001", "0.065999", "0.000001"):
        await budget.spend(stores, Decimal(usd))
        levels.append(await get_level(stores))
    assert levels == [
        BudgetLevel.full,
        BudgetLevel.full,
        BudgetLevel.reduced,
        BudgetLevel.reduced,
        BudgetLevel.rules,
    ]


async def test_counts_each_of_twenty_concurrent_payments_once(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = 0
    run = Stores.run

    async def run_among_others(stores: Stores, operation: Any) -> Any:
        """Run the operation, then yield, so that all of them read before the first one writes."""
        nonlocal refused
        try:
            return await run(stores, operation)
        except Conflict:
            refused += 1
            raise
        finally:
            await asyncio.sleep(0)

    with monkeypatch.context() as patched:
        patched.setattr(Stores, "run", run_among_others)
        await asyncio.gather(*(budget.spend(stores, Decimal("0.0213")) for _ in range(20)))
    bill = await budget.load_state(stores, await agent_settings.load(stores))
    assert (bill.spent, bill.calls, len(await list_events(stores))) == (Decimal("0.426"), 20, 1)
    assert refused >= 19


async def test_day_starts_at_midnight_in_the_zone_of_the_working_hours(
    stores: Stores, clock: ManualClock
) -> None:
    bills = []
    await budget.spend(stores, Decimal("0.10"))
    # Ten minutes before and after midnight in Sydney: the same day in UTC.
    for hours in (2 + 50 / 60, 20 / 60):
        clock.advance(hours * 3600)
        bill = await budget.spend(stores, Decimal("0.01"))
        bills.append((bill.date, bill.spent))
    assert bills == [("2026-02-04", Decimal("0.11")), ("2026-02-05", Decimal("0.01"))]


async def test_records_the_event_once_a_day_even_if_the_ceiling_is_raised(
    stores: Stores, clock: ManualClock
) -> None:
    counts = []
    for ceiling, usd in (("0.33", "0.33"), ("0.33", "0.01"), ("1", "0.10"), ("1", "0.90")):
        await agent_settings.put(stores, "budget_ceiling_daily_usd", ceiling)
        await budget.spend(stores, Decimal(usd))
        counts.append(len(await list_events(stores)))
    clock.advance(24 * 3600)
    await budget.spend(stores, Decimal(1))
    assert [*counts, len(await list_events(stores))] == [1, 1, 1, 1, 2]


async def test_event_states_the_amount_spent_and_the_ceiling(stores: Stores) -> None:
    await budget.spend(stores, Decimal("0.40"))
    (event,) = await list_events(stores)
    assert event.severity == "warning"
    assert event.detail == {
        "date": "2026-02-04",
        "usd": Decimal("0.4"),
        "ceiling_usd": Decimal("0.33"),
        "calls": 1,
    }


async def test_ceiling_of_zero_leaves_everything_to_rules(stores: Stores) -> None:
    await agent_settings.put(stores, "budget_ceiling_daily_usd", 0)
    assert await get_level(stores) is BudgetLevel.rules


@pytest.mark.parametrize(
    ("level", "type", "chosen"),
    [
        (BudgetLevel.full, ArtefactType.raid_log, "claude"),
        (BudgetLevel.reduced, ArtefactType.delivery_state, "claude"),
        (BudgetLevel.reduced, ArtefactType.raid_log, "rules"),
        (BudgetLevel.rules, ArtefactType.delivery_state, "rules"),
    ],
)
def test_level_decides_the_writer(level: BudgetLevel, type: ArtefactType, chosen: str) -> None:
    assert budget.choose_writer(level, type, FakeWriter("claude"), FakeWriter("rules")).name == chosen


class FakeWriter:
    """A writer that must not be called."""

    def __init__(self, name: str) -> None:
        self.name = name

    async def write(self, writing: Writing) -> Draft:
        raise AssertionError("this writer must not be called")
