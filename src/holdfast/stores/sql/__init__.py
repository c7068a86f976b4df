"""SQL: rows in PostgreSQL, embedded or a server, behind one port."""
