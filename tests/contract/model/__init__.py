"""Contract tests of entities and access patterns, over every tables engine."""
