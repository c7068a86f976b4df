"""The model over every engine."""
