"""Access patterns as tools for agents, by the Model Context Protocol.

tools.py     which tools a system has for its component `agent`, and what each says of itself
arguments.py the arguments of a tool: their schema, and their check
answers.py   what running a pattern gave, as JSON of bounded size
server.py    the protocol: lists the tools, runs one, tells what went wrong

`holdfast mcp` is the host. The SDK is the package `mcp`; nothing outside this room imports it.
"""

from __future__ import annotations

from holdfast.mcp.server import make_server, serve_stdio
from holdfast.mcp.tools import AGENT, AgentTool, agent_tools

__all__ = ["AGENT", "AgentTool", "agent_tools", "make_server", "serve_stdio"]
