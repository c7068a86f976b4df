"""Backups of tables, and restores from them, into a new table or in place."""
