"""The API: webhook endpoint, routes, MCP tools, explanations and the classifier's accuracy report."""
