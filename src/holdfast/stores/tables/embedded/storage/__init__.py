"""Storage: rows in, rows out. The only package of the tables engine that contains SQL."""
