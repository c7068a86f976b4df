"""The interfaces of AgenticPM: HTTP routes, commands, MCP tools, and the views and reviews behind them."""
