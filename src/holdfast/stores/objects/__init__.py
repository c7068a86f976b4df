"""Objects: the port, and the engines behind it (a local directory or memory; S3)."""
