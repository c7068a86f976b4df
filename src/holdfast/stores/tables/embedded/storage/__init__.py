"""The only rooms of the tables engine that know SQL: rows in, rows out."""
