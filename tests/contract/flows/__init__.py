"""Contract tests of flows, over every engine of tables and queues."""
