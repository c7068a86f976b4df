"""Queues: the port, and the engines behind it (embedded in SQLite; SQS)."""
