"""Arguments of commands: parse system names, table names, times and credentials."""
