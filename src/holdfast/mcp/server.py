"""The protocol: lists the tools, runs one, and tells what went wrong so that the agent can mend it.

What a caller did wrong, or the store refused, is the tool's answer with `isError`: one sentence, never a traceback.
What nobody expected is logged with its traceback, and the agent hears only that. Standard output carries the
protocol and nothing else; the log goes to standard error.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator, Sequence
from typing import Any

import mcp_types as types
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

from holdfast import __version__
from holdfast.errors import HoldfastError
from holdfast.mcp.tools import AgentTool, agent_tools
from holdfast.runtime.stores import Stores

log = logging.getLogger(__name__)

Request = ServerRequestContext[Any]


def make_server(stores: Sequence[Stores]) -> Server[Any]:
    """A server with the tools of these stores' systems. With several, a tool's name begins with its system's."""
    tools: dict[str, AgentTool] = {}
    for each in stores:
        prefix = f"{each.system.name}_" if each.system is not None and len(stores) > 1 else ""
        tools |= {tool.name: tool for tool in agent_tools(each, prefix=prefix)}

    async def list_tools(_: Request, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_described(tool) for tool in tools.values()])

    async def call_tool(_: Request, asked: types.CallToolRequestParams) -> types.CallToolResult:
        if asked.name not in tools:
            raise MCPError(
                types.INVALID_PARAMS, f"There is no tool {asked.name!r}: tools/list names all there are."
            )
        return await _called(tools[asked.name], asked.arguments or {})

    return Server(
        "holdfast",
        version=__version__,
        instructions=_instructions(stores),
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def serve_stdio(stores: Sequence[Stores]) -> None:
    """Answer on standard input and output until the input ends."""
    server = make_server(stores)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def _instructions(stores: Sequence[Stores]) -> str:
    systems = [each.system for each in stores if each.system is not None]
    about = " ".join(f"{system.title or system.name}: {system.purpose.rstrip('.')}." for system in systems)
    return (
        f"{about} A tool with an output schema reads or writes by a key or an index. Its answer has `items`, by stored "
        "attribute names (null where a key of a batch has none); `count`; `counts` per query, where several are asked at "
        "once; `cursor`, to call again with for what follows, until it is null; and `units`, what it cost. A tool without "
        "one goes over several of these and answers in a shape of its own, or under `result`. Times are written with "
        "their zone, as 2026-11-15T00:00:00Z."
    )


def _described(tool: AgentTool) -> types.Tool:
    effects = tool.effects
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=effects.reads_only,
            destructive_hint=effects.destroys,
            idempotent_hint=effects.repeatable,
            open_world_hint=False,
        ),
    )


async def _called(tool: AgentTool, arguments: dict[str, Any]) -> types.CallToolResult:
    try:
        # In a task of its own: on Python 3.11 a task group that failed leaves the task around it marked as cancelled.
        answer = await asyncio.create_task(tool.call(arguments))
    except HoldfastError as error:
        return _failed(_told(error))
    except ExceptionGroup as group:
        # What ran side by side failed together.
        ours = [error for error in _leaves(group) if isinstance(error, HoldfastError)]
        if len(ours) == len(list(_leaves(group))):
            return _failed(" ".join(dict.fromkeys(map(_told, ours))))
        return _unexpected(tool, group)
    except Exception as error:
        return _unexpected(tool, error)
    text = json.dumps(answer, ensure_ascii=False)
    return types.CallToolResult(content=[types.TextContent(text=text)], structured_content=answer)


def _told(error: HoldfastError) -> str:
    return " ".join(" ".join([error.message, *getattr(error, "__notes__", ())]).split())


def _leaves(group: ExceptionGroup[Exception]) -> Iterator[Exception]:
    for each in group.exceptions:
        if isinstance(each, ExceptionGroup):
            yield from _leaves(each)
        else:
            yield each


def _unexpected(tool: AgentTool, error: Exception) -> types.CallToolResult:
    log.error("The tool %s failed", tool.name, exc_info=error)
    return _failed(
        f"{tool.name} failed in a way it does not know. The log of the server has the reason: report it."
    )


def _failed(message: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=message)], is_error=True)
