"""Contract tests of the guarantees, on every engine of the stores they use."""
