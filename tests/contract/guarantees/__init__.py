"""Contract tests of the guarantees on every engine of their stores."""
