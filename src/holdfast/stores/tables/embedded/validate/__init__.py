"""Checks that need the table but read no items: keys, indexes, selections."""
