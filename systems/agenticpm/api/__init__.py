"""The API: views, reviews, serializers, commands, MCP tools and explanations."""
