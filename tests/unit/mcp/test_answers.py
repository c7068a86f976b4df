"""What a tool answers: items by stored names, pages that end where they must, one sentence for a mistake."""

from __future__ import annotations

import json
import logging
from decimal import Decimal
from typing import Any

import mcp_types as types
import pytest
from mcp import Client

from holdfast import Component, Stores
from holdfast.mcp.results import PAGE_BYTES_MAX, RESULT_BYTES_MAX
from tests.unit.mcp import harbour
from tests.unit.mcp.calling import answer, as_agent, refusal
from tests.unit.mcp.harbour import SYSTEM, Ship, moor, with_agent


def test_an_item_has_the_stored_names_and_nothing_that_is_absent() -> None:
    async def story(client: Client, stores: Stores) -> dict[str, Any]:
        await stores.run(Ship.put(Ship(ship_id="S1", berth="B1", tons=Decimal("7.50"), seal=b"\xff\x00")))
        return await answer(client, "ship", ship_id="S1")

    assert as_agent(story) == {
        "items": [{"shipId": "S1", "berth": "B1", "tons": "7.5", "seal": "_wA=", "calls": 0}],
        "count": 1,
        "cursor": None,
        "units": 0.5,
    }


def test_the_text_is_the_structured_answer_for_clients_that_know_no_other() -> None:
    async def story(client: Client, stores: Stores) -> types.CallToolResult:
        return await client.call_tool("ship", {"ship_id": "S1"})

    result = as_agent(story)

    assert isinstance(result.content[0], types.TextContent)
    assert json.loads(result.content[0].text) == result.structured_content
    assert result.structured_content == {"items": [], "count": 0, "cursor": None, "units": 0.5}


def test_a_long_answer_comes_in_pages_that_together_are_all_of_it() -> None:
    async def story(client: Client, stores: Stores) -> list[dict[str, Any]]:
        await moor(stores, "B1", 120)
        pages = [await answer(client, "ships_at", berth="B1")]
        while pages[-1]["cursor"]:
            pages.append(await answer(client, "ships_at", berth="B1", limit=40, cursor=pages[-1]["cursor"]))
        return pages

    pages = as_agent(story)

    assert [page["count"] for page in pages] == [50, 40, 30]
    assert [item["shipId"] for page in pages for item in page["items"]] == [f"S{n:03}" for n in range(1, 121)]


def test_a_page_is_read_on_past_what_a_filter_leaves_out() -> None:
    async def story(client: Client, stores: Stores) -> dict[str, Any]:
        await moor(stores, "B1", 60)
        return await answer(client, "heavy_ships_at", berth="B1", tons=55, limit=6)

    found = as_agent(story)

    assert [item["shipId"] for item in found["items"]] == ["S055", "S056", "S057", "S058", "S059", "S060"]


def test_a_filter_that_leaves_out_nearly_all_gives_what_there_is_and_a_cursor() -> None:
    async def story(client: Client, stores: Stores) -> tuple[dict[str, Any], dict[str, Any]]:
        await moor(stores, "B1", 60)
        first = await answer(client, "heavy_ships_at", berth="B1", tons=60, limit=3)
        return first, await answer(
            client, "heavy_ships_at", berth="B1", tons=60, limit=200, cursor=first["cursor"]
        )

    first, rest = as_agent(story)

    assert (first["items"], first["cursor"] is None) == ([], False)
    assert ([item["shipId"] for item in rest["items"]], rest["cursor"]) == (["S060"], None)


def test_a_page_ends_before_it_has_too_many_bytes_and_nothing_is_lost() -> None:
    async def story(client: Client, stores: Stores) -> list[dict[str, Any]]:
        await moor(stores, "B1", 30, seal=b"x" * 9_000)
        pages = [await answer(client, "ships_at", berth="B1")]
        while pages[-1]["cursor"]:
            pages.append(await answer(client, "ships_at", berth="B1", cursor=pages[-1]["cursor"]))
        return pages

    pages = as_agent(story)

    assert all(len(json.dumps(page["items"])) <= PAGE_BYTES_MAX for page in pages)
    assert [item["shipId"] for page in pages for item in page["items"]] == [f"S{n:03}" for n in range(1, 31)]


def test_one_item_larger_than_a_page_is_given_whole() -> None:
    async def story(client: Client, stores: Stores) -> list[int]:
        await moor(stores, "B1", 2, seal=b"x" * 100_000)
        first = await answer(client, "ships_at", berth="B1")
        second = await answer(client, "ships_at", berth="B1", cursor=first["cursor"])
        return [first["count"], second["count"]]

    assert as_agent(story) == [1, 1]


def test_selected_attributes_come_by_their_stored_names() -> None:
    async def story(client: Client, stores: Stores) -> dict[str, Any]:
        await moor(stores, "B1", 1)
        return await answer(client, "names_at", berth="B1")

    assert as_agent(story)["items"] == [{"shipId": "S001", "tons": "1"}]


def test_a_count_is_only_a_count() -> None:
    async def story(client: Client, stores: Stores) -> dict[str, Any]:
        await moor(stores, "B1", 7)
        return await answer(client, "count_at", berth="B1")

    assert as_agent(story) == {"items": [], "count": 7, "cursor": None, "units": 0.5}


def test_a_batch_answers_in_the_order_of_the_questions() -> None:
    async def story(client: Client, stores: Stores) -> dict[str, Any]:
        await moor(stores, "B1", 2)
        return await answer(client, "several", ship_ids=["S002", "S009", "S001"])

    found = as_agent(story)

    assert [item and item["shipId"] for item in found["items"]] == ["S002", None, "S001"]
    assert found["count"] == 2


def test_several_queries_say_how_many_items_are_of_each() -> None:
    async def story(client: Client, stores: Stores) -> dict[str, Any]:
        await moor(stores, "B1", 2)
        await stores.run(harbour.arrive("T1", "B3"))
        return await answer(client, "at_berths", berths=["B1", "B2", "B3"])

    found = as_agent(story)

    assert [item["shipId"] for item in found["items"]] == ["S001", "S002", "T1"]
    assert (found["count"], found["counts"]) == (3, [2, 0, 1])


def test_more_than_an_agent_should_be_given_is_refused_with_what_to_do() -> None:
    async def story(client: Client, _: Stores) -> tuple[str, dict[str, Any]]:
        much = await refusal(client, "flood", bytes_wanted=RESULT_BYTES_MAX)
        return much, await answer(client, "flood", bytes_wanted=RESULT_BYTES_MAX - 4)

    much, enough = as_agent(story)

    assert much == ("The result has 262,148 bytes, more than the limit of 262,144. Request less.")
    assert len(enough["result"][0]) == RESULT_BYTES_MAX - 4


def test_a_function_runs_over_the_patterns_of_the_agent() -> None:
    async def story(client: Client, stores: Stores) -> dict[str, Any]:
        await moor(stores, "B1", 4)
        return await answer(client, "tonnage", berth="B1", at_least=3)

    assert as_agent(story) == {"berth": "B1", "tons": "7"}


def test_a_function_cannot_do_what_the_agent_may_not() -> None:
    async def story(client: Client, stores: Stores) -> tuple[str, object]:
        await moor(stores, "B1", 1)
        said = await refusal(client, "sink", ship_id="S001")
        return said, await stores.run(harbour.ship("S001"))

    said, left = as_agent(story)

    assert said.startswith("The component agent may not run the pattern H11: it declares H1, H2")
    assert left is not None


def test_a_declared_write_is_done_and_tells_what_it_left() -> None:
    system = with_agent(Component("agent", writes=harbour.WRITES))

    async def story(client: Client, _: Stores) -> list[Any]:
        came = await answer(client, "arrive", ship_id="S1", berth="B1")
        again = await refusal(client, "arrive", ship_id="S1", berth="B1")
        called = await answer(client, "call_again", ship_id="S1")
        left = await answer(client, "leave", ship_id="S1")
        return [came["items"], again, called["items"][0]["calls"], left["items"][0]["shipId"], came["units"]]

    assert as_agent(story, system) == [[], "The conditional request failed", 1, "S1", 2.0]


@pytest.mark.parametrize(
    ("name", "arguments", "said"),
    [
        ("ship", {}, "Invalid arguments of ship (H1): ship_id: Field required."),
        ("ship", {"ship_id": 7}, "Invalid arguments of ship (H1): ship_id: Input should be a valid string."),
        (
            "ships_at",
            {"berth": "B1", "lmit": 3},
            "Invalid arguments of ships_at (H2): lmit: Extra inputs are not permitted.",
        ),
        (
            "ships_at",
            {"berth": "B1", "limit": 201},
            "Invalid arguments: limit: Input should be less than or equal to 200.",
        ),
        (
            "tonnage",
            {"berth": ""},
            "Invalid arguments: berth: String should have at least 1 character.",
        ),
    ],
)
def test_a_wrong_call_is_told_in_one_sentence(name: str, arguments: dict[str, Any], said: str) -> None:
    async def story(client: Client, _: Stores) -> str:
        return await refusal(client, name, **arguments)

    assert as_agent(story) == said


def test_a_cursor_of_another_question_is_refused() -> None:
    async def story(client: Client, stores: Stores) -> str:
        await moor(stores, "B1", 3)
        first = await answer(client, "ships_at", berth="B1", limit=1)
        return await refusal(client, "ships_at", berth="B2", cursor=first["cursor"])

    assert "cursor" in as_agent(story).lower()


def test_a_table_that_is_not_there_is_told_with_how_to_make_it() -> None:
    async def story(client: Client, stores: Stores) -> str:
        from holdfast.operations.tables import DeleteTable

        await stores.tables.run(DeleteTable("Ships"))
        return await refusal(client, "ship", ship_id="S1")

    assert "`holdfast tables harbour --create`" in as_agent(story)


def test_what_ran_side_by_side_and_failed_is_told_as_one_sentence() -> None:
    async def story(client: Client, stores: Stores) -> str:
        from holdfast.operations.tables import DeleteTable

        await stores.tables.run(DeleteTable("Ships"))
        return await refusal(client, "at_berths", berths=["B1", "B2"])

    assert as_agent(story).count("`holdfast indexes status harbour`") == 1


def test_what_nobody_expected_is_in_the_log_and_not_in_the_answer(caplog: pytest.LogCaptureFixture) -> None:
    async def story(client: Client, _: Stores) -> str:
        return await refusal(client, "stumble")

    with caplog.at_level(logging.ERROR, logger="holdfast.mcp.server"):
        said = as_agent(story, SYSTEM)

    assert said == "stumble failed unexpectedly. The server's log has the reason: report it."
    assert "a secret of the code" in caplog.text
