"""The Asana client: the tracker, and the parsers of tasks and stories."""
