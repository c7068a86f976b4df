"""Contract tests of MCP: every tool, resource and prompt of every system, on two sets of engines."""
