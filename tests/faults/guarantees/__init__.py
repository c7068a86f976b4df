"""Guarantees whose processes are killed: each promise holds afterwards."""
