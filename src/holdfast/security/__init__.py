"""Who may do what: signatures today; ciphers, secrets and tokens have their place here too."""
