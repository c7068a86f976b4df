"""Migrations of the surgery."""
