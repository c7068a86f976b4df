"""Tests of the agent's settings on stores in memory, and of working hours across clock changes."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from agenticpm.model import agent_settings, patterns
from agenticpm.model.agent_settings import (
    AgentSettings,
    count_working_minutes,
    find_next_opening,
    is_working_hours,
)
from holdfast import Stores
from holdfast.core.errors import InvalidRequest, SettingsError

SYDNEY = ZoneInfo("Australia/Sydney")


def make_settings(
    start: str = "08:00", end: str = "18:00", timezone: str = "Australia/Sydney"
) -> AgentSettings:
    """Make settings with these working hours."""
    return AgentSettings.from_values({"working_hours": {"start": start, "end": end, "timezone": timezone}})


def at_sydney(*moment: int, fold: int = 0) -> datetime:
    """Return a local time of Sydney in UTC."""
    return datetime(*moment, tzinfo=SYDNEY, fold=fold).astimezone(UTC)  # type: ignore[arg-type,misc]


# --- settings -----------------------------------------------------------------------------------------------


@pytest.mark.proves("AP-26", "AP-27", "AP-43", "AP-44")
async def test_seeds_only_the_documents_four_defaults(stores: Stores) -> None:
    seeded = await agent_settings.seed(stores)
    everything = patterns.index_values(await stores.all(patterns.agent_configs()))
    one = (await agent_settings.get(stores, "hold_queue_minutes")).value
    assert everything == {
        "polling_interval_minutes": 15,
        "budget_ceiling_daily_usd": Decimal("0.33"),
        "hold_queue_minutes": 30,
        "working_hours": {"start": "08:00", "end": "18:00", "timezone": "Australia/Sydney"},
    }
    assert one == 30
    assert sorted(seeded) == sorted(everything)


@pytest.mark.proves("AP-27")
async def test_seeding_keeps_existing_values_and_is_safe_when_concurrent(stores: Stores) -> None:
    await agent_settings.put(stores, "hold_queue_minutes", 5)
    seeded = await asyncio.gather(*(agent_settings.seed(stores) for _ in range(8)))
    assert await agent_settings.seed(stores) == []
    read = await agent_settings.load(stores)
    assert sorted(key for keys in seeded for key in keys) == [
        "budget_ceiling_daily_usd",
        "polling_interval_minutes",
        "working_hours",
    ]
    assert read.hold_queue_minutes == 5
    assert read.polling_interval_minutes == 15


async def test_reads_a_changed_value_and_records_the_old_one(stores: Stores) -> None:
    await agent_settings.seed(stores)
    await agent_settings.put(stores, "budget_ceiling_daily_usd", 1.25, by="ada")
    [event] = (await stores.all(patterns.recent_events())).items
    read, events = await agent_settings.load(stores), event.detail
    assert read.budget_ceiling_daily_usd == Decimal("1.25")
    assert events == {
        "key": "budget_ceiling_daily_usd",
        "before": Decimal("0.33"),
        "after": Decimal("1.25"),
        "by": "ada",
    }


@pytest.mark.proves("AP-28")
@pytest.mark.parametrize(
    ("key", "value", "message"),
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
async def test_rejects_an_invalid_value_and_keeps_the_old_one(
    stores: Stores, key: str, value: Any, message: str
) -> None:
    with pytest.raises(InvalidRequest, match=message):
        await agent_settings.put(stores, key, value)
    assert (await agent_settings.load(stores), len(await stores.all(patterns.recent_events()))) == (
        AgentSettings.from_values(agent_settings.DEFAULTS),
        0,
    )


def test_accepts_a_number_as_text() -> None:
    assert (
        agent_settings.validate("hold_queue_minutes", "45")
        == agent_settings.validate("hold_queue_minutes", 45)
        == 45
    )
    assert agent_settings.validate("budget_ceiling_daily_usd", 0.1) == Decimal("0.1")


def test_missing_time_zone_data_names_the_package_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zoneinfo.available_timezones", lambda: set[str]())
    with pytest.raises(SettingsError, match="tzdata"):
        agent_settings.get_zone("Nowhere/At_All")


# --- working hours ------------------------------------------------------------------------------------------


def test_hours_include_their_start_and_exclude_their_end() -> None:
    at = [(7, 59, 59), (8, 0, 0), (17, 59, 59), (18, 0, 0)]
    assert [is_working_hours(make_settings(), at_sydney(2026, 2, 4, *each)) for each in at] == [
        False,
        True,
        True,
        False,
    ]


def test_hours_across_midnight_are_open_on_both_sides() -> None:
    night = make_settings("22:00", "06:00")
    at = [(21, 59), (22, 0), (23, 59), (0, 0), (5, 59), (6, 0), (12, 0)]
    opened = [is_working_hours(night, at_sydney(2026, 2, 4, *each)) for each in at]
    assert opened == [False, True, True, True, True, False, False]
    assert find_next_opening(night, at_sydney(2026, 2, 4, 12)) == at_sydney(2026, 2, 4, 22)


def test_midnight_to_midnight_is_all_day() -> None:
    day = make_settings("00:00", "24:00")
    assert all(is_working_hours(day, at_sydney(2026, 2, 4, hour, 59)) for hour in range(24))


def test_next_opening_is_now_while_open_and_the_next_morning_otherwise() -> None:
    open_, evening = at_sydney(2026, 2, 4, 9, 30, 15), at_sydney(2026, 2, 4, 18, 0, 30)
    assert find_next_opening(make_settings(), open_) == open_
    assert find_next_opening(make_settings(), evening) == at_sydney(2026, 2, 5, 8)


def test_opening_stays_at_eight_across_both_clock_changes() -> None:
    # Summer time began on 4 October 2026 at two, and ended on 5 April at three.
    spring = find_next_opening(make_settings(), at_sydney(2026, 10, 3, 20))
    autumn = find_next_opening(make_settings(), at_sydney(2026, 4, 4, 20))
    assert (spring, autumn) == (at_sydney(2026, 10, 4, 8), at_sydney(2026, 4, 5, 8))
    assert spring - at_sydney(2026, 10, 3, 8) == timedelta(hours=23)
    assert autumn - at_sydney(2026, 4, 4, 8) == timedelta(hours=25)


def test_skipped_opening_hour_opens_after_the_jump() -> None:
    early = make_settings("02:30", "05:00")
    before = at_sydney(2026, 10, 4, 1, 59)
    opening = find_next_opening(early, before)
    assert opening == before + timedelta(minutes=1)
    assert opening.astimezone(SYDNEY).strftime("%H:%M") == "03:00"


def test_fully_skipped_hours_open_a_day_later() -> None:
    assert find_next_opening(make_settings("02:10", "02:50"), at_sydney(2026, 10, 4, 1)) == at_sydney(
        2026, 10, 5, 2, 10
    )


def test_repeated_hour_opens_twice() -> None:
    twice = make_settings("02:30", "03:00")
    first, second = at_sydney(2026, 4, 5, 2, 30), at_sydney(2026, 4, 5, 2, 30, fold=1)
    assert second - first == timedelta(hours=1)
    assert find_next_opening(twice, at_sydney(2026, 4, 5, 1)) == first
    between = first + timedelta(minutes=45)
    assert not is_working_hours(twice, between)
    assert find_next_opening(twice, between) == second


def test_counts_only_minutes_in_working_hours() -> None:
    since, now = at_sydney(2026, 2, 4, 17, 45), at_sydney(2026, 2, 5, 8, 20)
    assert count_working_minutes(make_settings(), since, now, 1000) == 35
    assert count_working_minutes(make_settings(), since, now, 10) == 10
    assert count_working_minutes(make_settings(), now, now, 1000) == 0
