"""Security: signatures, bearer tokens, ciphers and keys, secrets, and the check of the Host header."""
