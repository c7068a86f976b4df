"""Signatures, bearer tokens, ciphers and keys, and secrets."""
