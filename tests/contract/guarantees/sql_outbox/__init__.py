"""Contract tests of the SQL outbox: rows in PostgreSQL, messages to the queues of every engine."""
