"""Tests of the SQLite layer: opening, reading, committing, locks between processes, leases, error mapping."""
