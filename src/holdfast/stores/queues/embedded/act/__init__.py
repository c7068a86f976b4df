"""Each operation of a queues store, from a checked request to its result."""
