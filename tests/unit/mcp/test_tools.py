"""The tools that an agent is offered: their names, descriptions, schemas and effect hints."""

from __future__ import annotations

from dataclasses import replace

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import Tool, ToolAnnotations

from holdfast import Component, Stores, System, open_memory_stores
from holdfast.core.errors import DeclarationError, NotFound
from holdfast.mcp import build_agent_tools, build_server
from tests.unit.mcp import harbour
from tests.unit.mcp.harbour import SYSTEM, with_agent
from tests.unit.mcp.mcp_client import run_as_agent


def list_tools(*systems: System) -> dict[str, Tool]:
    async def listed(client: Client, _: Stores) -> dict[str, Tool]:
        return {tool.name: tool for tool in (await client.list_tools()).tools}

    return run_as_agent(listed, *systems)


def get_hints(tool: Tool) -> tuple[bool | None, bool | None, bool | None]:
    """Return the hints read-only, destructive and idempotent."""
    assert isinstance(tool.annotations, ToolAnnotations)
    found = tool.annotations
    return found.read_only_hint, found.destructive_hint, found.idempotent_hint


def test_offers_only_the_agents_patterns_and_the_systems_functions() -> None:
    assert list(list_tools()) == [
        *("ship", "ships_at", "heavy_ships_at", "names_at", "count_at", "several", "at_berths", "every_ship"),
        *("tonnage", "sink", "stumble", "flood"),
    ]


def test_description_states_purpose_key_and_rate() -> None:
    tools = list_tools()

    assert tools["ship"].description == (
        "One ship. Access pattern H1: GetItem on Ships by its key (shipId); expected 2 × per arrival."
    )
    description = tools["ships_at"].description
    assert description is not None
    assert description.startswith(
        "The ships at a berth. Access pattern H2: Query on Ships by index by-berth (berth, shipId); "
        "expected 2 × per arrival."
    )


def test_arguments_have_the_schema_declared_by_the_pattern() -> None:
    schema = list_tools()["ship"].input_schema

    assert schema["properties"] == {"ship_id": {"type": "string", "examples": ["S1"]}}
    assert (schema["required"], schema["additionalProperties"]) == (["ship_id"], False)


def test_query_takes_a_limit_and_a_cursor_too() -> None:
    schema = list_tools()["ships_at"].input_schema

    assert schema["required"] == ["berth"]
    assert schema["properties"]["berth"]["description"] == "The berth, as B1"
    limit = schema["properties"]["limit"]
    assert (limit["type"], limit["default"], limit["minimum"], limit["maximum"]) == ("integer", 50, 1, 200)
    assert "cursor" in schema["properties"]


def test_schema_of_a_function_leaves_out_the_stores() -> None:
    tonnage = list_tools()["tonnage"]

    assert tonnage.description == "All tons at a berth. Ships with less than `at_least` are left out."
    assert list(tonnage.input_schema["properties"]) == ["berth", "at_least", "cursor"]
    assert tonnage.input_schema["required"] == ["berth"]


def test_tools_of_an_agent_without_writes_are_marked_read_only() -> None:
    assert {get_hints(tool) for tool in list_tools().values()} == {(True, False, True)}


def test_offers_only_declared_writes_and_marks_their_effects() -> None:
    system = with_agent(Component("agent", uses=(harbour.ship, harbour.WRITES)))

    tools = list_tools(system)

    assert {name: get_hints(tool) for name, tool in tools.items()} == {
        "ship": (True, False, True),
        "arrive": (False, False, True),  # rejects an existing ship
        "call_again": (False, True, False),  # counts again on every call
        "leave": (False, True, True),
        "enter": (False, True, True),  # replaces an existing ship
        "tonnage": (False, True, False),  # may do anything that its component may
    }


def test_rejects_a_write_among_the_exposed_reads() -> None:
    system = with_agent(Component("agent", uses=(harbour.leave,), exposed_tools=(harbour.leave,)))

    with pytest.raises(DeclarationError, match=r"exposes H11 \(leave\) as a read, but it writes"):
        build_server([open_memory_stores(system)])


def test_tool_names_start_with_the_system_if_there_are_several() -> None:
    other = replace(with_agent(Component("agent", uses=(harbour.ship,))), name="marina")

    names = list(list_tools(SYSTEM, other))

    assert names[:2] == ["harbour_ship", "harbour_ships_at"]
    assert names[-2:] == ["marina_ship", "marina_tonnage"]


def test_system_without_an_agent_is_rejected_with_the_remedy() -> None:
    with pytest.raises(NotFound) as refused:
        build_agent_tools(open_memory_stores(with_agent(None)))

    assert refused.value.message == (
        "harbour declares no component 'agent' (it has api, clerk), and so has no tools for agents. Add "
        "Component('agent', uses=(…), read_only=True) to the system, with the patterns that an agent may run."
    )


def test_rejects_a_function_without_a_docstring_or_stores() -> None:
    async def silent(stores: Stores) -> None: ...

    async def lonely() -> None:
        """Takes nothing."""

    for function, said in ((silent, "has no docstring"), (lonely, "takes the stores first")):
        with pytest.raises(DeclarationError, match=said):
            build_agent_tools(
                open_memory_stores(replace(SYSTEM, admin=replace(SYSTEM.admin, tools=[function])))
            )


def test_rejects_a_function_named_like_a_pattern() -> None:
    async def ship(stores: Stores) -> None:
        """Not the pattern."""

    with pytest.raises(DeclarationError, match="two tools named ship: rename one"):
        build_agent_tools(open_memory_stores(replace(SYSTEM, admin=replace(SYSTEM.admin, tools=[ship]))))


def test_unknown_tool_is_a_protocol_error() -> None:
    async def story(client: Client, _: Stores) -> str:
        with pytest.raises(MCPError) as refused:
            await client.call_tool("shpi", {})
        return str(refused.value)

    assert run_as_agent(story) == "Unknown tool 'shpi': tools/list names all tools."


async def test_serves_an_agent_with_the_older_protocol() -> None:
    async with Client(build_server([open_memory_stores(SYSTEM)]), mode="legacy") as client:
        assert len((await client.list_tools()).tools) == 12
