"""Benchmarks of the command line."""
