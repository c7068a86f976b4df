"""`Transcript`: everything that an agent gets from one system over one session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import mcp_types as types
from mcp import Client
from mcp.shared.uri_template import UriTemplate

from holdfast import System, open_memory_stores
from holdfast.mcp import AgentTool, build_agent_tools

PERSON = "Ada Lovelace"
UNKNOWN = "00000000-0000-4000-8000-000000000000"


@dataclass
class Transcript:
    """The results of all tools with their examples, with ids that nothing has, and with wrong arguments; the
    texts of all resources and prompts.
    """

    system: System
    declared: dict[str, AgentTool]
    tools: dict[str, types.Tool]
    results: dict[str, types.CallToolResult] = field(default_factory=dict)
    unknown: dict[str, types.CallToolResult] = field(default_factory=dict)
    wrong: dict[str, types.CallToolResult] = field(default_factory=dict)
    resources: dict[str, str] = field(default_factory=dict)
    prompts: dict[str, str] = field(default_factory=dict)


async def record_transcript(system: System, client: Client, known: Mapping[str, str]) -> Transcript:
    """Call everything that the system offers, and return what came back.

    `known` replaces the values of examples whose ids are new in each sample.
    """
    declared = {each.name: each for each in build_agent_tools(open_memory_stores(system))}
    async with client as agent:
        listed = {tool.name: tool for tool in (await agent.list_tools()).tools}
        script = Transcript(system, declared, listed)
        examples = {
            name: {each: known.get(each, value) for each, value in tool.example.items()}
            for name, tool in declared.items()
        }
        for name, example in examples.items():
            script.results[name] = await agent.call_tool(name, example)
            script.unknown[name] = await agent.call_tool(name, _replace_texts(declared[name], example))
            script.wrong[name] = await agent.call_tool(name, {**example, "no_such_argument": PERSON})
        for resource in (await agent.list_resources()).resources:
            script.resources[resource.uri] = await _read(agent, resource.uri)
        for template in (await agent.list_resource_templates()).resource_templates:
            uri = UriTemplate.parse(template.uri_template).expand(examples[template.name])
            script.resources[template.uri_template] = await _read(agent, uri)
        for prompt in system.admin.prompts:
            got = await agent.get_prompt(prompt.name, dict(prompt.example))
            script.prompts[prompt.name] = str(got.messages[0].content)
    return script


def _replace_texts(tool: AgentTool, example: Mapping[str, Any]) -> dict[str, Any]:
    """Return the example with an id that nothing has, where an argument is a plain text."""
    properties = tool.input_schema["properties"]
    plain = {
        name for name, schema in properties.items() if schema.keys() & {"type", "enum", "format"} == {"type"}
    }
    return {
        name: UNKNOWN if name in plain and isinstance(value, str) else value
        for name, value in example.items()
    }


async def _read(agent: Client, uri: str) -> str:
    [content] = (await agent.read_resource(uri)).contents
    assert isinstance(content, types.TextResourceContents)
    return content.text
