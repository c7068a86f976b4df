"""Access patterns as tools for agents, over the Model Context Protocol.

    tools.py      the tools of a system's component `agent`, and their descriptions
    arguments.py  the arguments of a tool: schema and validation
    results.py    the result of a pattern, as JSON of bounded size
    server.py     the protocol: lists the tools, runs one, reports errors

`holdfast mcp` is the host. The SDK is the package `mcp`; only this package imports it.
"""

from __future__ import annotations

from holdfast.mcp.server import build_server, serve_stdio
from holdfast.mcp.tools import AGENT, AgentTool, build_agent_tools

__all__ = ["AGENT", "AgentTool", "build_agent_tools", "build_server", "serve_stdio"]
