"""Benchmarks of PAGW: SQL patterns, intake and pipeline, next to their floors and at scale."""
