"""Benchmarks of Richpanel: webhooks and events, next to their floors and at scale."""
