"""The SQLite floor: opening, reading, committing, taking turns, leases, and how its failures are told."""
