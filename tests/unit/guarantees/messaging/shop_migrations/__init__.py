"""Migrations of the SQL shop."""
