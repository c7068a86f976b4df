"""Which tools an agent is offered, and what each says of itself."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import Tool, ToolAnnotations

from holdfast import Component, Stores, System, open_memory_stores
from holdfast.core.errors import DeclarationError, NotFound
from holdfast.mcp import build_agent_tools, build_server
from tests.unit.mcp import harbour
from tests.unit.mcp.calling import as_agent
from tests.unit.mcp.harbour import SYSTEM, with_agent


def tools_of(*systems: System) -> dict[str, Tool]:
    async def listed(client: Client, _: Stores) -> dict[str, Tool]:
        return {tool.name: tool for tool in (await client.list_tools()).tools}

    return as_agent(listed, *systems)


def hints(tool: Tool) -> tuple[bool | None, bool | None, bool | None]:
    assert isinstance(tool.annotations, ToolAnnotations)
    found = tool.annotations
    return found.read_only_hint, found.destructive_hint, found.idempotent_hint


def test_only_the_patterns_of_the_agent_and_the_functions_of_the_system_are_offered() -> None:
    assert list(tools_of()) == [
        *("ship", "ships_at", "heavy_ships_at", "names_at", "count_at", "several", "at_berths", "every_ship"),
        *("tonnage", "sink", "stumble", "flood"),
    ]


def test_a_tool_says_what_it_is_for_and_by_which_key_it_finds_it_and_how_often_it_is_run() -> None:
    tools = tools_of()

    assert tools["ship"].description == (
        "One ship. Access pattern H1: GetItem on Ships by its key (shipId); expected 2 × per arrival."
    )
    said = tools["ships_at"].description
    assert said is not None
    assert said.startswith(
        "The ships at a berth. Access pattern H2: Query on Ships by index by-berth (berth, shipId); "
        "expected 2 × per arrival."
    )


def test_arguments_have_the_schema_that_the_pattern_declares() -> None:
    schema = tools_of()["ship"].input_schema

    assert schema["properties"] == {"ship_id": {"title": "Ship Id", "type": "string"}}
    assert (schema["required"], schema["additionalProperties"]) == (["ship_id"], False)


def test_a_query_also_takes_a_limit_and_a_cursor() -> None:
    schema = tools_of()["ships_at"].input_schema

    assert schema["required"] == ["berth"]
    assert schema["properties"]["berth"]["description"] == "The berth, as B1"
    limit = schema["properties"]["limit"]
    assert (limit["type"], limit["default"], limit["minimum"], limit["maximum"]) == ("integer", 50, 1, 200)
    assert "cursor" in schema["properties"]


def test_a_function_has_the_schema_of_its_arguments_without_the_stores() -> None:
    tonnage = tools_of()["tonnage"]

    assert tonnage.description == "All tons at a berth. Ships with less than `at_least` are left out."
    assert list(tonnage.input_schema["properties"]) == ["berth", "at_least"]
    assert tonnage.input_schema["required"] == ["berth"]


def test_reads_are_marked_as_reads() -> None:
    assert {hints(tool) for tool in tools_of().values()} == {(True, False, True)}


def test_writes_are_offered_only_when_declared_and_say_what_they_may_do() -> None:
    system = with_agent(Component("agent", reads=(harbour.ship,), writes=harbour.WRITES))

    tools = tools_of(system)

    assert {name: hints(tool) for name, tool in tools.items()} == {
        "ship": (True, False, True),
        "arrive": (False, False, True),  # refuses a ship that is there
        "call_again": (False, True, False),  # counts once more each time
        "leave": (False, True, True),
        "enter": (False, True, True),  # takes the place of a ship that is there
        "tonnage": (False, True, False),  # may do whatever its component may
    }


def test_a_write_that_is_declared_as_a_read_is_refused() -> None:
    system = with_agent(Component("agent", reads=(harbour.leave,)))

    with pytest.raises(DeclarationError, match=r"declares H11 \(leave\) as a read, but it writes"):
        build_server([open_memory_stores(system)])


def test_with_several_systems_each_name_begins_with_its_system() -> None:
    other = replace(with_agent(Component("agent", reads=(harbour.ship,))), name="marina")

    names = list(tools_of(SYSTEM, other))

    assert names[:2] == ["harbour_ship", "harbour_ships_at"]
    assert names[-2:] == ["marina_ship", "marina_tonnage"]


def test_a_system_without_an_agent_is_refused_with_what_to_add() -> None:
    with pytest.raises(NotFound) as refused:
        build_agent_tools(open_memory_stores(with_agent(None)))

    assert refused.value.message == (
        "harbour declares no component 'agent' (it has api, clerk), and so has no tools for agents. Add "
        "Component('agent', reads=(…)) to the system, with the patterns that an agent may run."
    )


def test_a_function_without_a_docstring_or_without_stores_is_no_tool() -> None:
    async def silent(stores: Stores) -> None: ...

    async def lonely() -> None:
        """Takes nothing."""

    for function, said in ((silent, "has no docstring"), (lonely, "takes the stores first")):
        with pytest.raises(DeclarationError, match=said):
            build_agent_tools(open_memory_stores(replace(SYSTEM, tools=[function])))


def test_a_function_named_like_a_pattern_is_refused() -> None:
    async def ship(stores: Stores) -> None:
        """Not the pattern."""

    with pytest.raises(DeclarationError, match="two tools named ship: rename one"):
        build_agent_tools(open_memory_stores(replace(SYSTEM, tools=[ship])))


def test_an_unknown_tool_is_an_error_of_the_protocol() -> None:
    async def story(client: Client, _: Stores) -> str:
        with pytest.raises(MCPError) as refused:
            await client.call_tool("shpi", {})
        return str(refused.value)

    assert as_agent(story) == "Unknown tool 'shpi': tools/list names all tools."


def test_an_agent_that_speaks_the_older_protocol_is_served_too() -> None:
    async def listed() -> int:
        async with Client(build_server([open_memory_stores(SYSTEM)]), mode="legacy") as client:
            return len((await client.list_tools()).tools)

    assert asyncio.run(listed()) == 12
