"""The entry points of SkyMarshal: HTTP routes, the agent's MCP tools and the CSV imports."""
