"""SkyMarshal's tables and entities, their access patterns, and the queries that combine these patterns."""
