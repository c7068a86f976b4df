"""The contract of a SQL store, over each of its engines."""
