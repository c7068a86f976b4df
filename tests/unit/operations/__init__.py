"""Numbers and values."""
