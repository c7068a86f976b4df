"""Contract tests of the objects store: the same results and errors on every engine (memory, folder, S3)."""
