"""Contract tests of the SQL store, over an embedded PostgreSQL and over one by its URL."""
