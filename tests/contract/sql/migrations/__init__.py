"""Contract tests of SQL migrations, on a real PostgreSQL."""
