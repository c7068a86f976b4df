"""The demo of AgenticPM: sample data, sandboxes of the external services, and the story."""
