"""The settings of the agent: the document's defaults, what is refused, and working hours over a change of the clocks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

import pytest

from agenticpm.model import agent_settings, patterns
from agenticpm.model.agent_settings import (
    AgentSettings,
    count_working_minutes,
    find_next_opening,
    is_working_hours,
)
from agenticpm.system import SYSTEM
from holdfast import Stores, open_memory_stores, provision
from holdfast.core.errors import InvalidRequest, NotFound, SettingsError

R = TypeVar("R")

SYDNEY = ZoneInfo("Australia/Sydney")


def played(play: Callable[[Stores], Awaitable[R]]) -> R:
    async def run() -> R:
        async with open_memory_stores(SYSTEM) as stores:
            await provision(stores, SYSTEM)
            return await play(stores)

    return asyncio.run(run())


def hours(start: str = "08:00", end: str = "18:00", timezone: str = "Australia/Sydney") -> AgentSettings:
    return AgentSettings.from_values({"working_hours": {"start": start, "end": end, "timezone": timezone}})


def sydney(*moment: int, fold: int = 0) -> datetime:
    return datetime(*moment, tzinfo=SYDNEY, fold=fold).astimezone(UTC)  # type: ignore[arg-type,misc]


# --- what is set --------------------------------------------------------------------------------------------


@pytest.mark.proves("AP-26")
@pytest.mark.proves("AP-27")
@pytest.mark.proves("AP-43")
@pytest.mark.proves("AP-44")
def test_seeds_the_documents_four_defaults_and_no_other() -> None:
    async def play(stores: Stores) -> tuple[dict[str, Any], Any, list[str]]:
        seeded = await agent_settings.seed(stores)
        everything = patterns.index_values(await stores.all(patterns.agent_configs()))
        return everything, (await agent_settings.get(stores, "hold_queue_minutes")).value, seeded

    everything, one, seeded = played(play)
    assert everything == {
        "polling_interval_minutes": 15,
        "budget_ceiling_daily_usd": Decimal("0.33"),
        "hold_queue_minutes": 30,
        "working_hours": {"start": "08:00", "end": "18:00", "timezone": "Australia/Sydney"},
    }
    assert one == 30
    assert sorted(seeded) == sorted(everything)


@pytest.mark.proves("AP-27")
def test_seeding_leaves_what_is_set_and_may_be_done_by_many_at_once() -> None:
    async def play(stores: Stores) -> tuple[list[str], AgentSettings]:
        await agent_settings.put(stores, "hold_queue_minutes", 5)
        seeded = await asyncio.gather(*(agent_settings.seed(stores) for _ in range(8)))
        assert await agent_settings.seed(stores) == []
        return sorted(key for keys in seeded for key in keys), await agent_settings.load(stores)

    seeded, read = played(play)
    assert seeded == ["budget_ceiling_daily_usd", "polling_interval_minutes", "working_hours"]
    assert read.hold_queue_minutes == 5
    assert read.polling_interval_minutes == 15


def test_without_anything_set_the_defaults_hold() -> None:
    read = played(agent_settings.load)
    assert read == AgentSettings.from_values(agent_settings.DEFAULTS)
    assert read.budget_ceiling_daily_usd == Decimal("0.33")


def test_what_was_changed_is_read_and_told_with_what_it_was() -> None:
    async def play(stores: Stores) -> tuple[AgentSettings, Any]:
        await agent_settings.seed(stores)
        await agent_settings.put(stores, "budget_ceiling_daily_usd", 1.25, by="ada")
        [event] = (await stores.all(patterns.recent_events())).items
        return await agent_settings.load(stores), event.detail

    read, told = played(play)
    assert read.budget_ceiling_daily_usd == Decimal("1.25")
    assert told == {
        "key": "budget_ceiling_daily_usd",
        "before": Decimal("0.33"),
        "after": Decimal("1.25"),
        "by": "ada",
    }


@pytest.mark.proves("AP-28")
@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("polling_interval_minutes", 0, "an integer from 1 to 1440"),
        ("polling_interval_minutes", 1441, "an integer from 1 to 1440"),
        ("polling_interval_minutes", "15.5", "an integer"),
        ("polling_interval_minutes", True, "expected a number"),
        ("polling_interval_minutes", "often", "expected a number"),
        ("polling_interval_minutes", "1_5", "expected a number"),
        ("budget_ceiling_daily_usd", -1, "0 to 1000 dollars"),
        ("budget_ceiling_daily_usd", float("nan"), "expected a number"),
        ("budget_ceiling_daily_usd", {"usd": 1}, "expected a number"),
        ("hold_queue_minutes", -1, "an integer from 0 to 10080"),
        ("working_hours", "always", "an object with start, end, timezone"),
        ("working_hours", {"start": "08:00", "end": "18:00"}, "an object with start, end, timezone"),
        ("working_hours", {"start": "8:00", "end": "18:00", "timezone": "UTC"}, "start of working_hours"),
        ("working_hours", {"start": "24:00", "end": "18:00", "timezone": "UTC"}, "start of working_hours"),
        ("working_hours", {"start": "08:00", "end": "18:60", "timezone": "UTC"}, "end of working_hours"),
        ("working_hours", {"start": "08:00", "end": "08:00", "timezone": "UTC"}, "00:00 to 24:00"),
        ("working_hours", {"start": "08:00", "end": "18:00", "timezone": "Sydney"}, "Invalid time zone"),
        (
            "working_hours",
            {"start": "08:00", "end": "18:00", "timezone": "../etc/passwd"},
            "Invalid time zone",
        ),
        ("working_hours", {"start": "08:00", "end": "18:00", "timezone": "Australia"}, "Invalid time zone"),
        ("working_hours", {"start": "08:00", "end": "18:00", "timezone": ""}, "Invalid time zone"),
        ("working_hours", {"start": "08:00", "end": "18:00", "timezone": 10}, "timezone of working_hours"),
        ("spend", {"usd": 0}, "Only the agent sets"),
        ("digest", {"date": "2026-02-04"}, "Only the agent sets"),
        ("digest_recipients", "ada", "Invalid address 'ada' in digest_recipients"),
        ("digest_recipients", ["ada@acme.example"], "expected a text"),
        ("colour", "red", "expected one of polling_interval_minutes, budget_ceiling_daily_usd"),
    ],
)
def test_refuses_a_value_that_cannot_be_and_keeps_what_was(key: str, value: Any, told: str) -> None:
    async def play(stores: Stores) -> tuple[AgentSettings, int]:
        with pytest.raises(InvalidRequest, match=told):
            await agent_settings.put(stores, key, value)
        return await agent_settings.load(stores), len(await stores.all(patterns.recent_events()))

    assert played(play) == (AgentSettings.from_values(agent_settings.DEFAULTS), 0)


def test_a_number_from_the_command_line_is_as_good_as_one_of_json() -> None:
    assert (
        agent_settings.validate("hold_queue_minutes", "45")
        == agent_settings.validate("hold_queue_minutes", 45)
        == 45
    )
    assert agent_settings.validate("budget_ceiling_daily_usd", 0.1) == Decimal("0.1")


def test_the_digest_goes_to_nobody_until_somebody_is_named() -> None:
    async def play(stores: Stores) -> list[tuple[str, ...]]:
        before = (await agent_settings.load(stores)).digest_recipients
        await agent_settings.put(stores, "digest_recipients", "ada@acme.example, bo@acme.example,")
        return [before, (await agent_settings.load(stores)).digest_recipients]

    assert played(play) == [(), ("ada@acme.example", "bo@acme.example")]


def test_a_setting_that_is_not_set_is_said_so() -> None:
    async def play(stores: Stores) -> None:
        with pytest.raises(NotFound, match="Setting 'colour' not found"):
            await agent_settings.get(stores, "colour")

    played(play)


def test_a_machine_without_time_zones_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoneinfo.available_timezones", lambda: set[str]())
    with pytest.raises(SettingsError, match="tzdata"):
        agent_settings.get_zone("Nowhere/At_All")


# --- hours --------------------------------------------------------------------------------------------------


def test_hours_begin_with_their_first_minute_and_end_before_their_last() -> None:
    at = [(7, 59, 59), (8, 0, 0), (17, 59, 59), (18, 0, 0)]
    assert [is_working_hours(hours(), sydney(2026, 2, 4, *each)) for each in at] == [False, True, True, False]


def test_hours_that_cross_midnight_are_open_on_both_sides_of_it() -> None:
    night = hours("22:00", "06:00")
    at = [(21, 59), (22, 0), (23, 59), (0, 0), (5, 59), (6, 0), (12, 0)]
    opened = [is_working_hours(night, sydney(2026, 2, 4, *each)) for each in at]
    assert opened == [False, True, True, True, True, False, False]
    assert find_next_opening(night, sydney(2026, 2, 4, 12)) == sydney(2026, 2, 4, 22)


def test_all_day_is_from_midnight_to_midnight() -> None:
    day = hours("00:00", "24:00")
    assert all(is_working_hours(day, sydney(2026, 2, 4, hour, 59)) for hour in range(24))


def test_while_open_the_next_opening_is_now_and_else_the_next_morning() -> None:
    open_, evening = sydney(2026, 2, 4, 9, 30, 15), sydney(2026, 2, 4, 18, 0, 30)
    assert find_next_opening(hours(), open_) == open_
    assert find_next_opening(hours(), evening) == sydney(2026, 2, 5, 8)


def test_eight_in_the_morning_stays_eight_over_both_changes_of_the_clocks() -> None:
    # Summer time began on 4 October 2026 at two, and ended on 5 April at three.
    spring = find_next_opening(hours(), sydney(2026, 10, 3, 20))
    autumn = find_next_opening(hours(), sydney(2026, 4, 4, 20))
    assert (spring, autumn) == (sydney(2026, 10, 4, 8), sydney(2026, 4, 5, 8))
    assert spring - sydney(2026, 10, 3, 8) == timedelta(hours=23)
    assert autumn - sydney(2026, 4, 4, 8) == timedelta(hours=25)


def test_an_hour_that_the_clocks_leave_out_opens_when_they_have_jumped() -> None:
    early = hours("02:30", "05:00")
    before = sydney(2026, 10, 4, 1, 59)
    opening = find_next_opening(early, before)
    assert opening == before + timedelta(minutes=1)
    assert opening.astimezone(SYDNEY).strftime("%H:%M") == "03:00"


def test_hours_that_the_clocks_leave_out_as_a_whole_open_a_day_later() -> None:
    assert find_next_opening(hours("02:10", "02:50"), sydney(2026, 10, 4, 1)) == sydney(2026, 10, 5, 2, 10)


def test_an_hour_that_comes_twice_opens_twice() -> None:
    twice = hours("02:30", "03:00")
    first, second = sydney(2026, 4, 5, 2, 30), sydney(2026, 4, 5, 2, 30, fold=1)
    assert second - first == timedelta(hours=1)
    assert find_next_opening(twice, sydney(2026, 4, 5, 1)) == first
    between = first + timedelta(minutes=45)
    assert not is_working_hours(twice, between)
    assert find_next_opening(twice, between) == second


def test_only_minutes_of_working_hours_are_counted() -> None:
    since, now = sydney(2026, 2, 4, 17, 45), sydney(2026, 2, 5, 8, 20)
    assert count_working_minutes(hours(), since, now, 1000) == 35
    assert count_working_minutes(hours(), since, now, 10) == 10
    assert count_working_minutes(hours(), now, now, 1000) == 0
