"""The guarantees over every engine of the stores they stand on."""
