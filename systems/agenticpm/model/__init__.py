"""Stored state: entities, access patterns, and the operations on each aggregate."""
