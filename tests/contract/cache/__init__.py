"""Contract tests of the cache store, over the in-memory engine and a real Redis server."""
