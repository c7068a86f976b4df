"""The handlers of the embedded queues: each operation, from a checked request to its result."""
