"""A system for agents, over the Model Context Protocol: tools, resources and prompts.

    tools.py           the tools of a system's component `agent`, and their descriptions
    output_schemas.py  the output schema of a system's function
    resources.py       the description of a system, and its items by key
    prompts.py         the typical jobs that a system declares
    errors.py          what an agent reads of a failure
    scopes.py          what a token permits
    server.py          the protocol: lists, calls, reads
    http_app.py        the protocol over HTTP

`holdfast mcp` is the host. The SDK is the package `mcp`; only this package imports it.
"""

from __future__ import annotations

from holdfast.mcp.server import build_server, serve_stdio
from holdfast.mcp.tools import AGENT, AgentTool, build_agent_tools

__all__ = ["AGENT", "AgentTool", "build_agent_tools", "build_server", "serve_stdio"]
