"""Resilience: circuit breaker, lease and rate limit, shared by all processes."""
