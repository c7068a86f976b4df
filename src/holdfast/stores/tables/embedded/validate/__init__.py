"""Validation in the embedded engine: checks that need the table but read no items."""
