"""Alembic revisions of the schema `pagw`, one module each, oldest first."""
