"""Benchmarks of the embedded stores: tables, the wire protocol and a FIFO queue, next to raw SQLite."""
