"""The contract of SQL migrations, on a real PostgreSQL."""
