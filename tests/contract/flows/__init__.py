"""Flows over every engine of tables and queues."""
