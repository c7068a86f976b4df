"""The SQL store: its port, and the PostgreSQL engine (`postgres`), embedded or on a server."""
