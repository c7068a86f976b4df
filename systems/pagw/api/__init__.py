"""Interfaces of the gateway: HTTP routes and their operations, operators' commands, MCP tools,
explanations.
"""
