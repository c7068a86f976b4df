"""Contract tests of the cipher port: keys in a file and KMS."""
