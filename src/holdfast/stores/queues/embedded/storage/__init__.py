"""Storage of the embedded queues: rows in, rows out, and the only SQL of this engine."""
