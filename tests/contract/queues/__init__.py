"""Contract tests of the queues store: the same results and errors on every engine."""
