"""Interfaces of the gateway: HTTP routes and operations, operators' commands, MCP tools, explanations."""
