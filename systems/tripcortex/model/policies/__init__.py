"""Policies and their chunks in PostgreSQL, their files in a bucket, and the access patterns of both."""
