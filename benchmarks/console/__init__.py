"""Benchmarks of the web console: what a page costs, by the size of the table that it shows."""
