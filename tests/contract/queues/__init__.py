"""The contract of the queues store, over each of its engines."""
