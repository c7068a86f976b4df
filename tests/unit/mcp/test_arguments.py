"""What an agent may give a tool: one name for the cursor, times with their zone, and refusals in one sentence."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any

from mcp import Client
from pydantic import AfterValidator

from holdfast import Component, Pattern, Query, Stores, System, pattern
from tests.unit.mcp.calling import answer, as_agent, refusal
from tests.unit.mcp.harbour import ARRIVAL, SYSTEM, Ship, moor


def _even(number: int) -> int:
    if number % 2:
        raise ValueError("only even numbers are berthed.")
    return number


@pattern("A1", "The ships at a berth, a page at a time", rate=ARRIVAL, example=("B1",))
def pages_at(berth: str, limit: int = 20, after: str | None = None) -> Query[Ship]:
    return Ship.at_berth(berth).query().page(limit, after)


@pattern("A2", "The ships at a berth of a flag", rate=ARRIVAL, example={"berth": "B1"})
def flagged_at(berth: str, flag: str | None = None) -> Query[Ship]:
    found = Ship.at_berth(berth).query()
    return found if flag is None else found.where(Ship.flag == flag)


@pattern(
    "A3",
    "The ships at a berth since",
    rate=ARRIVAL,
    example=("B1", datetime.fromisoformat("2026-01-01T00:00Z")),
)
def since(berth: str, moment: datetime) -> Query[Ship]:
    return Ship.at_berth(berth).query().where(Ship.flag == moment.isoformat())


@pattern("A4", "The ships at an even berth", rate=ARRIVAL, example=(2,))
def even(number: Annotated[int, AfterValidator(_even)]) -> Query[Ship]:
    return Ship.at_berth(f"B{number}").query()


async def seen_since(stores: Stores, moments: list[datetime]) -> int:
    """How many moments there are."""
    return len(moments)


def harbour_with(*patterns: Pattern[..., Any]) -> System:
    agent = Component("agent", reads=patterns)
    return replace(SYSTEM, patterns=patterns, components=[agent], tools=[seen_since])


def offered(name: str, *patterns: Pattern[..., Any]) -> list[str]:
    async def story(client: Client, _: Stores) -> list[str]:
        [tool] = [each for each in (await client.list_tools()).tools if each.name == name]
        return sorted(tool.input_schema["properties"])

    return as_agent(story, harbour_with(*patterns))


def test_a_pattern_with_a_cursor_of_its_own_is_offered_under_one_name() -> None:
    assert offered("pages_at", pages_at) == ["berth", "cursor", "limit"]


def test_the_cursor_leads_to_the_next_page_of_such_a_pattern() -> None:
    async def story(client: Client, stores: Stores) -> list[list[str]]:
        await moor(stores, "B1", 3)
        first = await answer(client, "pages_at", berth="B1", limit=2)
        second = await answer(client, "pages_at", berth="B1", limit=2, cursor=first["cursor"])
        return [[item["shipId"] for item in page["items"]] for page in (first, second)]

    assert as_agent(story, harbour_with(pages_at)) == [["S001", "S002"], ["S003"]]


def test_another_optional_text_is_no_cursor() -> None:
    assert offered("flagged_at", flagged_at) == ["berth", "cursor", "flag", "limit"]


def test_a_time_without_a_zone_is_refused_in_the_words_of_json() -> None:
    async def story(client: Client, _: Stores) -> tuple[str, str]:
        return (
            await refusal(client, "since", berth="B1", moment="2026-11-15T00:00:00"),
            await refusal(client, "seen_since", moments=["2026-11-15T00:00:00"]),
        )

    of_pattern, of_function = as_agent(story, harbour_with(since))

    assert of_pattern.startswith(
        "moment: 2026-11-15T00:00:00 has no time zone: write it as 2026-11-15T00:00:00Z"
    )
    assert of_function.startswith("moments: 2026-11-15T00:00:00 has no time zone")


def test_a_time_with_a_zone_is_taken() -> None:
    async def story(client: Client, _: Stores) -> int:
        return int((await answer(client, "since", berth="B1", moment="2026-11-15T04:00:00+04:00"))["count"])

    assert as_agent(story, harbour_with(since)) == 0


def test_a_refusal_ends_with_one_full_stop() -> None:
    async def story(client: Client, _: Stores) -> str:
        return await refusal(client, "even", number=3)

    assert as_agent(story, harbour_with(even)).endswith("only even numbers are berthed.")


def test_the_instructions_tell_the_shape_of_functions_apart() -> None:
    async def story(client: Client, _: Stores) -> str:
        return str(client.instructions)

    told = as_agent(story, harbour_with(since))

    assert "in its own shape, or under `result`" in told
