"""The stored state of AgenticPM: entities, access patterns, and the operations on each aggregate."""
