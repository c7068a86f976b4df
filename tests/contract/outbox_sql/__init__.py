"""Outbox, audit, breaker and rate limit over every engine."""
