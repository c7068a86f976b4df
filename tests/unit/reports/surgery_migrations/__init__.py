"""SQL migrations of the test system `surgery`."""
