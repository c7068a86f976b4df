"""The entry points: HTTP routes, the agent's tools, CSV imports."""
