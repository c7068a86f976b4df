"""Everything that an agent reads of the five systems: descriptions, arguments, prompts, errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import pytest

from holdfast import open_memory_stores
from holdfast.core.errors import HoldfastError
from holdfast.mcp import AgentTool, build_agent_tools
from holdfast.mcp.prompts import AgentPrompt, build_agent_prompts
from holdfast.mcp.resources import build_agent_resources
from holdfast.model.agents import ToolFunction
from holdfast.model.system import load_system

SYSTEMS = ("agenticpm", "pagw", "richpanel", "skymarshal", "tripcortex")
# Python, files, modules, tracebacks, and the project's own paperwork.
INTERNALS = re.compile(
    r"\bNone\b|\bTrue\b|\bFalse\b|\bdict\b|\bself\b|\bstores\b|\basync\b|Traceback|\.py\b|__|::|"
    r"\bBaseModel\b|Pydantic|pydantic|\bTODO\b|design document|the document's"
)
MAX_DESCRIPTION = 700
MAX_TOOLS = 25


@cache
def list_tools(system: str) -> list[AgentTool]:
    return build_agent_tools(open_memory_stores(load_system(system)))


@cache
def list_prompts(system: str) -> list[AgentPrompt]:
    return build_agent_prompts(load_system(system))


def list_texts(system: str) -> Iterator[tuple[str, str]]:
    """Yield each text that an agent reads before a call, and where it is."""
    for tool in list_tools(system):
        yield f"{tool.name}: description", tool.description
        yield f"{tool.name}: title", tool.title
        for name, schema in tool.input_schema["properties"].items():
            yield f"{tool.name}: argument {name}", schema.get("description", "")
    for prompt in list_prompts(system):
        yield f"{prompt.name}: description", prompt.description
        yield f"{prompt.name}: message", prompt.render(prompt.declared.example)
        for name, (text, _) in prompt.arguments.items():
            yield f"{prompt.name}: argument {name}", text
    for resource in build_agent_resources(load_system(system), list_tools(system)):
        yield f"{resource.uri}: description", resource.description


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_text_says_something_in_plain_words(system: str) -> None:
    texts = dict(list_texts(system))

    assert {
        where for where, text in texts.items() if len(text.split()) < (1 if "title" in where else 2)
    } == set()
    assert {where: found[0] for where, text in texts.items() if (found := INTERNALS.search(text))} == {}
    assert {where for where, text in texts.items() if not (text[0].isupper() or text[0].isdigit())} == set()


@pytest.mark.parametrize("system", SYSTEMS)
def test_tools_are_few_and_their_descriptions_short_sentences(system: str) -> None:
    tools = list_tools(system)

    assert len(tools) <= MAX_TOOLS
    for tool in tools:
        assert tool.description.endswith("."), tool.name
        assert len(tool.description) <= MAX_DESCRIPTION, tool.name


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_function_has_an_example_and_says_when_it_fails(system: str) -> None:
    for tool in load_system(system).admin.tools:
        assert isinstance(tool, ToolFunction)
        [offered] = [each for each in list_tools(system) if each.name == tool.name]
        required = offered.input_schema.get("required", [])

        assert set(required) <= tool.example.keys() <= offered.input_schema["properties"].keys(), tool.name
        for kind, when in tool.errors.items():
            assert issubclass(kind, HoldfastError)
            assert f"Fails if {when}." in offered.description
        assert offered.output_schema is not None, tool.name


@pytest.mark.parametrize("system", SYSTEMS)
def test_declared_arguments_are_used(system: str) -> None:
    """A description of an argument that no tool and no prompt has is a leftover."""
    used = {name for tool in list_tools(system) for name in tool.input_schema["properties"]}
    used |= {name for prompt in list_prompts(system) for name in prompt.arguments}

    assert load_system(system).admin.arguments.keys() <= used


@pytest.mark.parametrize("system", SYSTEMS)
def test_agents_of_the_systems_only_read(system: str) -> None:
    assert all(tool.effects.read_only for tool in list_tools(system))
