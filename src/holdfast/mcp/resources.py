"""The resources of a system for an agent: its description, and its items by their keys.

`holdfast://SYSTEM/about` describes what the agent may run, what it costs, and the entities it finds. Each
tool that reads one item by texts is a template too, such as `holdfast://skymarshal/booking/{booking_id}`:
reading it calls the tool, so that it has the same permissions and limits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from holdfast.core.distribution import explain_missing
from holdfast.core.errors import NotFound
from holdfast.mcp.tools import AGENT, AgentTool
from holdfast.model.system import System
from holdfast.reports.docs.agent_page import render_agent_page

with explain_missing(__name__, "mcp"):
    from mcp.shared.uri_template import UriTemplate

SCHEME: Final = "holdfast"
MARKDOWN: Final = "text/markdown"
JSON: Final = "application/json"


@dataclass(frozen=True)
class AgentResource:
    """One resource, or a template of resources if its URI has variables.

    `read` is called with the values of the variables and returns the content.
    """

    uri: str
    name: str
    title: str
    description: str
    mime_type: str
    read: Callable[[dict[str, Any]], Coroutine[Any, Any, str]]
    system: str

    @property
    def is_template(self) -> bool:
        return bool(self._template.variable_names)

    def match(self, uri: str) -> dict[str, Any] | None:
        """Return the values of the variables in a URI, or None if it is not one of this resource."""
        return self._template.match(uri)

    @cached_property
    def _template(self) -> UriTemplate:
        return UriTemplate.parse(self.uri)


def build_agent_resources(system: System, tools: Sequence[AgentTool]) -> list[AgentResource]:
    """Build the resources of a system from its declaration and its tools."""
    items = [_build_item_template(system, each) for each in tools if each.item_key and _takes_texts(each)]
    return [_build_page(system), *items]


def _build_page(system: System) -> AgentResource:
    title = system.title or system.name

    async def read(_: dict[str, Any]) -> str:
        return render_agent_page(system, system.get_component(AGENT))

    return AgentResource(
        uri=f"{SCHEME}://{system.name}/about",
        name=f"{system.name}_about",
        title=f"About {title}",
        description=f"What an agent may ask {title}: access patterns with rate and cost, and entities.",
        mime_type=MARKDOWN,
        read=read,
        system=system.name,
    )


def _build_item_template(system: System, tool: AgentTool) -> AgentResource:
    assert tool.item_key is not None

    async def read(variables: dict[str, Any]) -> str:
        found = await tool.call(variables)
        if not found["items"]:
            raise NotFound(f"{tool.title.rstrip('.')}: there is none with this key. Check it.")
        return json.dumps(found["items"][0], ensure_ascii=False)

    own_name = tool.name.removeprefix(f"{system.name}_")
    return AgentResource(
        uri="/".join([f"{SCHEME}://{system.name}", own_name, *(f"{{{name}}}" for name in tool.item_key)]),
        name=tool.name,
        title=tool.title,
        description=tool.description,
        mime_type=JSON,
        read=read,
        system=system.name,
    )


def _takes_texts(tool: AgentTool) -> bool:
    """Return whether every argument is a required text, as in a URI."""
    properties = tool.input_schema["properties"]
    required = tool.input_schema.get("required", [])
    return all(name in required and properties[name].get("type") == "string" for name in tool.item_key or ())
