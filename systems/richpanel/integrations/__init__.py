"""Clients of the help desk and the shop, their responses and rate limits."""
