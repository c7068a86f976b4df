"""The Asana client: tracker and parsers of tasks and stories."""
