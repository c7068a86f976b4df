"""Arguments of tools: one name for the cursor, times with their zone, and errors in one sentence."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any

from mcp import Client
from pydantic import AfterValidator

from holdfast import Component, Pattern, Query, Stores, System, pattern
from tests.unit.mcp.harbour import ARRIVAL, SYSTEM, Ship, moor
from tests.unit.mcp.mcp_client import call_tool, get_refusal, run_as_agent


def _even(number: int) -> int:
    """Raise `ValueError` for an odd number, with a message that ends in a full stop."""
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
    """Return how many moments there are."""
    return len(moments)


def harbour_with(*patterns: Pattern[..., Any]) -> System:
    """Return the harbour with an agent that has only these patterns."""
    agent = Component("agent", uses=(patterns,))
    return replace(
        SYSTEM, patterns=patterns, components=[agent], admin=replace(SYSTEM.admin, tools=[seen_since])
    )


def list_arguments(name: str, *patterns: Pattern[..., Any]) -> list[str]:
    """Return the sorted argument names in the schema of a tool."""

    async def story(client: Client, _: Stores) -> list[str]:
        [tool] = [each for each in (await client.list_tools()).tools if each.name == name]
        return sorted(tool.input_schema["properties"])

    return run_as_agent(story, harbour_with(*patterns))


def test_pattern_with_its_own_cursor_is_offered_under_one_name() -> None:
    assert list_arguments("pages_at", pages_at) == ["berth", "cursor", "limit"]


def test_pattern_with_its_own_cursor_returns_the_next_page() -> None:
    async def story(client: Client, stores: Stores) -> list[list[str]]:
        await moor(stores, "B1", 3)
        first = await call_tool(client, "pages_at", berth="B1", limit=2)
        second = await call_tool(client, "pages_at", berth="B1", limit=2, cursor=first["cursor"])
        return [[item["shipId"] for item in page["items"]] for page in (first, second)]

    assert run_as_agent(story, harbour_with(pages_at)) == [["S001", "S002"], ["S003"]]


def test_other_optional_text_is_not_a_cursor() -> None:
    assert list_arguments("flagged_at", flagged_at) == ["berth", "cursor", "flag", "limit"]


def test_rejects_a_time_without_a_zone_in_terms_of_json() -> None:
    async def story(client: Client, _: Stores) -> tuple[str, str]:
        return (
            await get_refusal(client, "since", berth="B1", moment="2026-11-15T00:00:00"),
            await get_refusal(client, "seen_since", moments=["2026-11-15T00:00:00"]),
        )

    of_pattern, of_function = run_as_agent(story, harbour_with(since))

    assert of_pattern.startswith(
        "moment: 2026-11-15T00:00:00 has no time zone: write it as 2026-11-15T00:00:00Z"
    )
    assert of_function.startswith("moments: 2026-11-15T00:00:00 has no time zone")


def test_accepts_a_time_with_a_zone() -> None:
    async def story(client: Client, _: Stores) -> int:
        return int(
            (await call_tool(client, "since", berth="B1", moment="2026-11-15T04:00:00+04:00"))["count"]
        )

    assert run_as_agent(story, harbour_with(since)) == 0


def test_error_ends_with_one_full_stop() -> None:
    async def story(client: Client, _: Stores) -> str:
        return await get_refusal(client, "even", number=3)

    assert run_as_agent(story, harbour_with(even)) == (
        'Invalid arguments: number: only even numbers are berthed. A valid call: {"number": 2}.'
    )


def test_instructions_describe_the_results_of_functions_separately() -> None:
    async def story(client: Client, _: Stores) -> str:
        return str(client.instructions)

    message = run_as_agent(story, harbour_with(since))

    assert "returns its own fields, or `result`" in message
