"""Contract tests of ciphers (file, KMS) and of secret sources (environment, file, Secrets Manager)."""
