"""Contract tests of the tables store: the same results and errors on every engine."""
