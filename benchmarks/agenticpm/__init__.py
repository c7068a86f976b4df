"""Benchmarks of Trip Cortex: similarity search, and bookings at scale."""
