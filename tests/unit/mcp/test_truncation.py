"""Results that are too large for an agent: cut, with a cursor for the rest, and they say so."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import mcp_types as types
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Component, Stores
from holdfast.core.errors import InvalidRequest
from holdfast.runtime.json_calls.truncation import MAX_PAGE_BYTES, count_bytes, cut_result
from tests.unit.mcp import harbour
from tests.unit.mcp.harbour import SYSTEM, moor
from tests.unit.mcp.mcp_client import call_tool, get_refusal, open_agent

NOTE = "x" * 900


async def report(stores: Stores, count: int) -> dict[str, Any]:
    """Return a long report with two lists."""
    lines = [f"{number} {NOTE}" for number in range(count)]
    return {"title": "The year", "parts": {"lines": lines}, "few": ["a", "b"]}


LONG = replace(SYSTEM, admin=replace(SYSTEM.admin, tools=[report]))


async def test_cut_result_says_so_and_its_cursor_leads_through_the_rest() -> None:
    async with open_agent(LONG) as (agent, _):
        pages = [await call_tool(agent, "report", count=150)]
        while pages[-1].get("cursor"):
            pages.append(await call_tool(agent, "report", count=150, cursor=pages[-1]["cursor"]))

    assert all(count_bytes(page) <= MAX_PAGE_BYTES + 500 for page in pages)
    lines = [line.split(" ")[0] for page in pages for line in page["parts"]["lines"]]
    assert lines == [str(number) for number in range(150)]
    assert [page["few"] for page in pages] == [["a", "b"], [], []]
    shown = len(pages[0]["parts"]["lines"])
    assert pages[0]["truncated"] == {"/parts/lines": {"shown": shown, "of": 150}}
    assert "truncated" not in pages[-1]


async def test_text_of_a_cut_result_tells_the_agent_how_to_go_on() -> None:
    async with open_agent(LONG) as (agent, _):
        whole = await agent.call_tool("report", {"count": 3})
        cut = await agent.call_tool("report", {"count": 150})

    assert len(whole.content) == 1
    assert isinstance(cut.content[1], types.TextContent)
    assert "Call the tool again with the same arguments and this `cursor`" in cut.content[1].text


async def test_cursor_is_refused_with_other_arguments_and_if_it_is_invented() -> None:
    async with open_agent(LONG) as (agent, _):
        first = await call_tool(agent, "report", count=150)
        other = await get_refusal(agent, "report", count=151, cursor=first["cursor"])
        invented = [await get_refusal(agent, "report", count=1, cursor=each) for each in ("x", "e30=", "é")]

    assert other.startswith("Invalid cursor: it belongs to a call with other arguments.")
    assert {each.partition(":")[0] for each in invented} == {"Invalid cursor"}


async def test_batch_of_large_items_is_cut_too() -> None:
    system = replace(SYSTEM, components=[Component("agent", uses=(harbour.several,))])
    keys = [f"S{number:03}" for number in range(1, 21)]
    async with open_agent(system) as (agent, stores):
        await moor(stores, "B1", 20, seal=b"x" * 9_000)
        first = await call_tool(agent, "several", ship_ids=keys)
        rest, cursor = list[Any](), first["cursor"]
        while cursor:
            page = await call_tool(agent, "several", ship_ids=keys, cursor=cursor)
            rest, cursor = rest + page["items"], page["cursor"]

    assert first["count"] == 20
    assert first["truncated"] == {"/items": {"shown": len(first["items"]), "of": 20}}
    assert [item["shipId"] for item in first["items"] + rest] == keys


SIZES = st.lists(st.integers(0, 20_000), max_size=30)


@given(st.dictionaries(st.sampled_from(["a", "b/c", "d~e", ""]), SIZES, max_size=3))
def test_pages_of_any_lists_together_are_the_whole(sizes: dict[str, list[int]]) -> None:
    """Reassemble every list from the pages: nothing is lost, repeated or reordered, and each page fits."""

    def compute() -> dict[str, Any]:
        lists = {name: [f"{n}:{'x' * size}" for n, size in enumerate(each)] for name, each in sizes.items()}
        return json.loads(json.dumps({"lists": lists}))  # type: ignore[no-any-return]

    whole, cursor = compute(), None
    found: dict[str, list[str]] = {name: [] for name in sizes}
    for _ in range(100):
        page = cut_result(compute(), "call", cursor)
        assert count_bytes(page["lists"]) <= MAX_PAGE_BYTES
        for name, part in page["lists"].items():
            found[name] += part
        cursor = page.get("cursor")
        if cursor is None:
            break

    assert {"lists": found} == whole


@pytest.mark.parametrize("result", [{"text": "x" * 300_000}, {"texts": ["x" * 300_000]}])
def test_rejects_a_result_without_a_list_to_cut(result: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match=r"more than the limit of 262,144\. Request less\."):
        cut_result(result, "call", None)
