"""Migrations of SQL: what they promise, on a real PostgreSQL."""
