"""Contract tests of the SQL outbox with the queues of every engine."""
