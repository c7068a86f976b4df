"""Policies and their chunks in PostgreSQL, their files, and the access patterns of both."""
