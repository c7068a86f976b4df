"""The port of ciphers: by keys in a file and by a key of KMS."""
