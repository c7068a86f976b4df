"""Clients of external services: the payers."""
