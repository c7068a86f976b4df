"""Demonstration: sandboxes of external services, sample data and the story."""
