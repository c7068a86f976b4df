"""The only package of the tables engine that contains SQL: rows in, rows out."""
