"""The interfaces of Trip Cortex: HTTP routes, WebSocket, commands, MCP tools, and explanations."""
