"""The SQLite layer: opening, reading, committing, turns between processes, leases, and error mapping."""
