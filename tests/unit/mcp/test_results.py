"""Results of tools in process: stored names, bounded pages, one sentence per error, and permissions."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import mcp_types as types
import pytest
from mcp import Client

from holdfast import Component, Stores
from holdfast.runtime.json_calls.truncation import MAX_PAGE_BYTES, MAX_RESULT_BYTES
from tests.unit.mcp import harbour
from tests.unit.mcp.harbour import Ship, moor, with_agent
from tests.unit.mcp.mcp_client import call_tool, get_refusal, run_as_agent


def test_item_has_stored_names_and_no_absent_attributes() -> None:
    async def story(client: Client, stores: Stores) -> dict[str, Any]:
        await stores.run(Ship.put(Ship(ship_id="S1", berth="B1", tons=Decimal("7.50"), seal=b"\xff\x00")))
        return await call_tool(client, "ship", ship_id="S1")

    assert run_as_agent(story) == {
        "items": [{"shipId": "S1", "berth": "B1", "tons": "7.5", "seal": "_wA=", "calls": 0}],
        "count": 1,
        "cursor": None,
        "units": 0.5,
    }


def test_text_repeats_the_structured_result_for_other_clients() -> None:
    async def story(client: Client, stores: Stores) -> types.CallToolResult:
        return await client.call_tool("ship", {"ship_id": "S1"})

    result = run_as_agent(story)

    assert isinstance(result.content[0], types.TextContent)
    assert json.loads(result.content[0].text) == result.structured_content
    assert result.structured_content == {"items": [], "count": 0, "cursor": None, "units": 0.5}


def test_pages_together_are_the_whole_result() -> None:
    async def story(client: Client, stores: Stores) -> list[dict[str, Any]]:
        await moor(stores, "B1", 120)
        pages = [await call_tool(client, "ships_at", berth="B1")]
        while pages[-1]["cursor"]:
            pages.append(
                await call_tool(client, "ships_at", berth="B1", limit=40, cursor=pages[-1]["cursor"])
            )
        return pages

    pages = run_as_agent(story)

    assert [page["count"] for page in pages] == [50, 40, 30]
    assert [item["shipId"] for page in pages for item in page["items"]] == [f"S{n:03}" for n in range(1, 121)]


def test_page_continues_past_filtered_items() -> None:
    async def story(client: Client, stores: Stores) -> dict[str, Any]:
        await moor(stores, "B1", 60)
        return await call_tool(client, "heavy_ships_at", berth="B1", tons=55, limit=6)

    found = run_as_agent(story)

    assert [item["shipId"] for item in found["items"]] == ["S055", "S056", "S057", "S058", "S059", "S060"]


def test_selective_filter_returns_what_it_found_and_a_cursor() -> None:
    async def story(client: Client, stores: Stores) -> tuple[dict[str, Any], dict[str, Any]]:
        await moor(stores, "B1", 60)
        first = await call_tool(client, "heavy_ships_at", berth="B1", tons=60, limit=3)
        return first, await call_tool(
            client, "heavy_ships_at", berth="B1", tons=60, limit=200, cursor=first["cursor"]
        )

    first, rest = run_as_agent(story)

    assert (first["items"], first["cursor"] is None) == ([], False)
    assert ([item["shipId"] for item in rest["items"]], rest["cursor"]) == (["S060"], None)


def test_page_ends_before_its_size_limit_and_loses_nothing() -> None:
    async def story(client: Client, stores: Stores) -> list[dict[str, Any]]:
        await moor(stores, "B1", 30, seal=b"x" * 9_000)
        pages = [await call_tool(client, "ships_at", berth="B1")]
        while pages[-1]["cursor"]:
            pages.append(await call_tool(client, "ships_at", berth="B1", cursor=pages[-1]["cursor"]))
        return pages

    pages = run_as_agent(story)

    assert all(len(json.dumps(page["items"])) <= MAX_PAGE_BYTES for page in pages)
    assert [item["shipId"] for page in pages for item in page["items"]] == [f"S{n:03}" for n in range(1, 31)]


def test_returns_an_item_larger_than_a_page_whole() -> None:
    async def story(client: Client, stores: Stores) -> list[int]:
        await moor(stores, "B1", 2, seal=b"x" * 100_000)
        first = await call_tool(client, "ships_at", berth="B1")
        second = await call_tool(client, "ships_at", berth="B1", cursor=first["cursor"])
        return [first["count"], second["count"]]

    assert run_as_agent(story) == [1, 1]


def test_selected_attributes_have_stored_names() -> None:
    async def story(client: Client, stores: Stores) -> dict[str, Any]:
        await moor(stores, "B1", 1)
        return await call_tool(client, "names_at", berth="B1")

    assert run_as_agent(story)["items"] == [{"shipId": "S001", "tons": "1"}]


def test_count_returns_only_a_count() -> None:
    async def story(client: Client, stores: Stores) -> dict[str, Any]:
        await moor(stores, "B1", 7)
        return await call_tool(client, "count_at", berth="B1")

    assert run_as_agent(story) == {"items": [], "count": 7, "cursor": None, "units": 0.5}


def test_batch_returns_items_in_the_order_of_the_keys() -> None:
    async def story(client: Client, stores: Stores) -> dict[str, Any]:
        await moor(stores, "B1", 2)
        return await call_tool(client, "several", ship_ids=["S002", "S009", "S001"])

    found = run_as_agent(story)

    assert [item and item["shipId"] for item in found["items"]] == ["S002", None, "S001"]
    assert found["count"] == 2


def test_several_queries_report_the_number_of_items_of_each() -> None:
    async def story(client: Client, stores: Stores) -> dict[str, Any]:
        await moor(stores, "B1", 2)
        await stores.run(harbour.arrive("T1", "B3"))
        return await call_tool(client, "at_berths", berths=["B1", "B2", "B3"])

    found = run_as_agent(story)

    assert [item["shipId"] for item in found["items"]] == ["S001", "S002", "T1"]
    assert (found["count"], found["counts"]) == (3, [2, 0, 1])


def test_rejects_a_result_too_large_for_an_agent_with_a_remedy() -> None:
    most = MAX_RESULT_BYTES - len('{"result": [""]}')

    async def story(client: Client, _: Stores) -> tuple[str, dict[str, Any]]:
        much = await get_refusal(client, "flood", bytes_wanted=most + 1)
        return much, await call_tool(client, "flood", bytes_wanted=most)

    much, enough = run_as_agent(story)

    assert much == ("The result has 262,145 bytes, more than the limit of 262,144. Request less.")
    assert len(enough["result"][0]) == most


def test_function_runs_the_agents_patterns() -> None:
    async def story(client: Client, stores: Stores) -> dict[str, Any]:
        await moor(stores, "B1", 4)
        return await call_tool(client, "tonnage", berth="B1", at_least=3)

    assert run_as_agent(story) == {"berth": "B1", "tons": "7"}


def test_function_cannot_exceed_the_agents_rights() -> None:
    async def story(client: Client, stores: Stores) -> tuple[str, object]:
        await moor(stores, "B1", 1)
        message = await get_refusal(client, "sink", ship_id="S001")
        return message, await stores.run(harbour.ship("S001"))

    message, left = run_as_agent(story)

    assert message.startswith(
        "sink is not set up correctly. Report it to the operator: the log has the reason"
    )
    assert "The reason: The component agent may not run the pattern H11: it declares H1, H2" in message
    assert left is not None


def test_agent_runs_declared_writes() -> None:
    """Run declared writes: a put returns nothing, a repeated create is refused, an update and a delete return
    the item.
    """
    system = with_agent(Component("agent", uses=(harbour.WRITES,)))

    async def story(client: Client, _: Stores) -> list[Any]:
        came = await call_tool(client, "arrive", ship_id="S1", berth="B1")
        again = await get_refusal(client, "arrive", ship_id="S1", berth="B1")
        called = await call_tool(client, "call_again", ship_id="S1")
        left = await call_tool(client, "leave", ship_id="S1")
        return [came["items"], again, called["items"][0]["calls"], left["items"][0]["shipId"], came["units"]]

    assert run_as_agent(story, system) == [[], "The conditional request failed", 1, "S1", 2.0]


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("ship", {}, 'ship_id is missing. A valid call: {"ship_id": "S1"}.'),
        ("ship", {"ship_id": 7}, 'ship_id: Input should be a valid string. A valid call: {"ship_id": "S1"}.'),
        (
            "ships_at",
            {"berth": "B1", "lmit": 3},
            '"lmit" is unknown (did you mean limit?). A valid call: {"berth": "B1"}.',
        ),
        (
            "every_ship",
            {"flag": "x"},
            '"flag" is unknown (the arguments are limit, cursor).',
        ),
        (
            "ships_at",
            {"berth": "", "limit": 201},
            "berth: String should have at least 1 character; limit: Input should be less than or equal to "
            '200. A valid call: {"berth": "B1"}.',
        ),
        ("tonnage", {"berth": ""}, "berth: String should have at least 1 character."),
    ],
)
def test_wrong_call_learns_what_to_write_instead(name: str, arguments: dict[str, Any], message: str) -> None:
    async def story(client: Client, _: Stores) -> str:
        return await get_refusal(client, name, **arguments)

    assert run_as_agent(story) == f"Invalid arguments: {message}"


def test_rejects_a_cursor_of_another_query() -> None:
    async def story(client: Client, stores: Stores) -> str:
        await moor(stores, "B1", 3)
        first = await call_tool(client, "ships_at", berth="B1", limit=1)
        return await get_refusal(client, "ships_at", berth="B2", cursor=first["cursor"])

    assert "cursor" in run_as_agent(story).lower()


def test_missing_table_says_how_to_create_it() -> None:
    async def story(client: Client, stores: Stores) -> str:
        from holdfast.operations.tables import DeleteTable

        await stores.tables.run(DeleteTable("Ships"))
        return await get_refusal(client, "ship", ship_id="S1")

    assert "`holdfast tables harbour --create`" in run_as_agent(story)


def test_concurrent_failures_are_one_sentence() -> None:
    async def story(client: Client, stores: Stores) -> str:
        from holdfast.operations.tables import DeleteTable

        await stores.tables.run(DeleteTable("Ships"))
        return await get_refusal(client, "at_berths", berths=["B1", "B2"])

    assert run_as_agent(story).count("`holdfast indexes status harbour`") == 1
