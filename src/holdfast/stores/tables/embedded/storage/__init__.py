"""Storage of the embedded tables: rows in, rows out, and the only SQL of this engine."""
