"""The MCP server: lists the tools, runs one, and reports errors so that the agent can fix its call.

An error of the caller or a refusal of the store is the tool's result with `isError`: one sentence, never a
traceback. An unexpected error is logged with its traceback, and the agent learns only that it happened.
Standard output carries only the protocol; the log goes to standard error.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator, Sequence
from typing import Any

from holdfast import __version__
from holdfast.core.distribution import explain_missing
from holdfast.core.errors import HoldfastError, format_message
from holdfast.mcp.tools import AgentTool, build_agent_tools
from holdfast.runtime.stores import Stores

with explain_missing(__name__, "mcp"):
    import mcp_types as types
    from mcp.server import Server, ServerRequestContext
    from mcp.server.stdio import stdio_server
    from mcp.shared.exceptions import MCPError

log = logging.getLogger(__name__)

Request = ServerRequestContext[Any]


def build_server(stores: Sequence[Stores]) -> Server[Any]:
    """Build a server with the tools of these stores' systems. With several systems, a tool's name begins with
    its system's.
    """
    tools: dict[str, AgentTool] = {}
    for each in stores:
        prefix = f"{each.system.name}_" if each.system is not None and len(stores) > 1 else ""
        tools |= {tool.name: tool for tool in build_agent_tools(each, prefix=prefix)}

    async def list_tools(_: Request, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_to_protocol_tool(tool) for tool in tools.values()])

    async def call_tool(_: Request, params: types.CallToolRequestParams) -> types.CallToolResult:
        if params.name not in tools:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool {params.name!r}: tools/list names all tools.")
        return await _run_tool(tools[params.name], params.arguments or {})

    return Server(
        "holdfast",
        version=__version__,
        instructions=_build_instructions(stores),
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def serve_stdio(stores: Sequence[Stores]) -> None:
    """Serve the protocol on standard input and output until the input ends."""
    server = build_server(stores)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


def _build_instructions(stores: Sequence[Stores]) -> str:
    """Return the text that an agent reads first: the systems, and how to read a tool's result."""
    systems = [each.system for each in stores if each.system is not None]
    about = " ".join(f"{system.title or system.name}: {system.purpose.rstrip('.')}." for system in systems)
    return (
        f"{about} A tool with an output schema reads or writes by a key or an index. Its result has "
        "`items`, with stored attribute names (null for a key of a batch without an item); `count`; "
        "`counts` per query, if several run at once; `cursor`, to pass in the next call for the next "
        "page, until it is null; and `units`, the cost. A tool without an output schema combines "
        "several of these and returns its own fields, or `result`. Write times with their "
        "zone, as 2026-11-15T00:00:00Z."
    )


def _to_protocol_tool(tool: AgentTool) -> types.Tool:
    """Return the tool in the protocol's form, with its effects as hints."""
    effects = tool.effects
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=effects.read_only,
            destructive_hint=effects.destructive,
            idempotent_hint=effects.idempotent,
            open_world_hint=False,
        ),
    )


async def _run_tool(tool: AgentTool, arguments: dict[str, Any]) -> types.CallToolResult:
    """Run the tool and return its result; a Holdfast error becomes an error result, any other is logged
    too.
    """
    try:
        # In its own task: on Python 3.11 a failed task group leaves the enclosing task marked as cancelled.
        answer = await asyncio.create_task(tool.call(arguments))
    except HoldfastError as error:
        return _to_error_result(_format_error(error))
    except ExceptionGroup as group:
        # Several concurrent operations failed.
        ours = [error for error in _flatten(group) if isinstance(error, HoldfastError)]
        if len(ours) == len(list(_flatten(group))):
            return _to_error_result(" ".join(dict.fromkeys(map(_format_error, ours))))
        return _handle_unexpected(tool, group)
    except Exception as error:
        return _handle_unexpected(tool, error)
    text = json.dumps(answer, ensure_ascii=False)
    return types.CallToolResult(content=[types.TextContent(text=text)], structured_content=answer)


def _format_error(error: HoldfastError) -> str:
    """Return the error's message and notes as one line."""
    return " ".join(format_message(error).split())


def _flatten(group: ExceptionGroup[Exception]) -> Iterator[Exception]:
    """Yield the exceptions of a group and of the groups inside it."""
    for each in group.exceptions:
        if isinstance(each, ExceptionGroup):
            yield from _flatten(each)
        else:
            yield each


def _handle_unexpected(tool: AgentTool, error: Exception) -> types.CallToolResult:
    """Log the error with its traceback and return a result without its details."""
    log.error("The tool %s failed", tool.name, exc_info=error)
    return _to_error_result(f"{tool.name} failed unexpectedly. The server's log has the reason: report it.")


def _to_error_result(message: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(text=message)], is_error=True)
