"""Resources and prompts over a real session: what a system is, its items by key, and typical jobs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Annotated, Any

import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from pydantic import Field

from holdfast import Component, System
from holdfast.core.errors import DeclarationError
from holdfast.mcp.prompts import build_agent_prompts
from holdfast.model.agents import Prompt
from tests.unit.mcp import harbour
from tests.unit.mcp.harbour import SYSTEM, moor
from tests.unit.mcp.mcp_client import open_agent
from tests.unit.reports import post_room


def plan_berth(ship: str, day: Annotated[str, Field(description="The day of arrival")] = "today") -> str:
    """Find a berth for a ship that comes in."""
    return f"Find a berth for {ship}, which arrives {day}."


def silent(ship: str) -> str:
    return ship


def explode(ship: str) -> str:
    """Fail unexpectedly."""
    raise KeyError(ship)


def harbour_with_prompts(*prompts: Prompt) -> System:
    arguments = {"ship": "The name of the ship"}
    return replace(SYSTEM, admin=replace(SYSTEM.admin, prompts=prompts, arguments=arguments))


async def read_text(agent: Client, uri: str) -> str:
    [content] = (await agent.read_resource(uri)).contents
    assert isinstance(content, types.TextResourceContents)
    assert content.uri == uri
    return content.text


async def test_description_of_a_system_has_its_patterns_with_rate_and_cost_and_its_entities() -> None:
    async with open_agent() as (agent, _):
        [resource] = (await agent.list_resources()).resources
        text = await read_text(agent, resource.uri)

    assert (resource.uri, resource.mime_type) == ("holdfast://harbour/about", "text/markdown")
    assert resource.description
    assert "Ships and where they lie." in text
    assert (
        "| H2 | `ships_at` | The ships at a berth | Query | Ships by `by-berth` | 2 × per arrival |  "
        "| half a unit per 4 KB read |"
    ) in text
    assert "| `tons` | `Decimal` |  |" in text
    # The agent may not run it.
    assert "H11" not in text


async def test_item_is_a_resource_by_its_key_under_the_rules_of_its_tool() -> None:
    async with open_agent() as (agent, stores):
        await moor(stores, "B1", 1)
        await stores.run(harbour.arrive("North/South 1", "B2"))
        templates = [each.uri_template for each in (await agent.list_resource_templates()).resource_templates]
        found = json.loads(await read_text(agent, "holdfast://harbour/ship/S001"))
        quoted = json.loads(await read_text(agent, "holdfast://harbour/ship/North%2FSouth%201"))

    assert templates == ["holdfast://harbour/ship/{ship_id}"]
    assert (found["shipId"], quoted["berth"]) == ("S001", "B2")


@pytest.mark.parametrize(
    ("uri", "message"),
    [
        ("holdfast://harbour/ship/S9", "One ship: there is none with this key. Check it."),
        ("holdfast://harbour/leave/S1", "Unknown resource: resources/list names all resources."),
        ("holdfast://marina/about", "Unknown resource"),
        ("file:///etc/passwd", "Unknown resource"),
    ],
)
async def test_resource_that_does_not_exist_is_an_error_of_the_protocol(uri: str, message: str) -> None:
    async with open_agent() as (agent, _):
        with pytest.raises(MCPError, match=message):
            await agent.read_resource(uri)


async def test_description_covers_queues_and_objects() -> None:
    agent_component = Component("agent", uses=(post_room.scan_of, post_room.take_in))
    async with open_agent(replace(post_room.SYSTEM, components=[agent_component])) as (agent, _):
        [resource] = (await agent.list_resources()).resources
        text = await read_text(agent, resource.uri)

    assert "| one request |" in text
    assert "## Tables and entities" not in text


async def test_prompt_is_listed_with_its_arguments_and_becomes_a_message() -> None:
    system = harbour_with_prompts(Prompt(plan_berth, example={"ship": "Aurora"}))
    async with open_agent(system) as (agent, _):
        [listed] = (await agent.list_prompts()).prompts
        short = await agent.get_prompt("plan_berth", {"ship": "Aurora"})
        [message] = (await agent.get_prompt("plan_berth", {"ship": "Aurora", "day": "on Monday"})).messages

    assert (listed.title, listed.description) == ("Plan berth", "Find a berth for a ship that comes in.")
    assert [(each.name, each.description, each.required) for each in listed.arguments or ()] == [
        ("ship", "The name of the ship", True),
        ("day", "The day of arrival", False),
    ]
    assert short.description == listed.description
    assert isinstance(message.content, types.TextContent)
    assert (message.role, message.content.text) == (
        "user",
        "Find a berth for Aurora, which arrives on Monday.",
    )


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        ("plan_berth", {}, 'Invalid arguments: ship is missing. A valid call: {"ship": "Aurora"}.'),
        ("plan_berth", {"shp": "A"}, r'Invalid arguments: "shp" is unknown \(did you mean ship\?\)'),
        ("plan", {}, "Unknown prompt 'plan': prompts/list names all."),
        ("explode", {"ship": "Aurora"}, "explode failed unexpectedly"),
    ],
)
async def test_wrong_prompt_is_an_error_that_says_what_to_do(
    name: str, arguments: dict[str, Any], message: str
) -> None:
    system = harbour_with_prompts(Prompt(plan_berth, example={"ship": "Aurora"}), Prompt(explode))
    async with open_agent(system) as (agent, _):
        with pytest.raises(MCPError, match=message):
            await agent.get_prompt(name, arguments)


async def test_prompts_and_items_of_several_systems_have_their_names() -> None:
    first = harbour_with_prompts(Prompt(plan_berth))
    async with open_agent(first, replace(first, name="marina")) as (agent, _):
        prompts = [each.name for each in (await agent.list_prompts()).prompts]
        templates = [each.uri_template for each in (await agent.list_resource_templates()).resource_templates]

    assert prompts == ["harbour_plan_berth", "marina_plan_berth"]
    assert templates == ["holdfast://harbour/ship/{ship_id}", "holdfast://marina/ship/{ship_id}"]


def test_rejects_a_prompt_without_a_docstring() -> None:
    with pytest.raises(DeclarationError, match="The prompt silent has no docstring"):
        build_agent_prompts(harbour_with_prompts(Prompt(silent)))
