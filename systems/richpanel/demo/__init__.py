"""Sandbox, sample data and the demo story."""
