"""The outbox in SQL, over the queues of every engine."""
