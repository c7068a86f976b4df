"""Who may do what: signatures, tokens, ciphers and keys, secrets."""
