"""Rows in, rows out: the only SQL of the queues engine."""
