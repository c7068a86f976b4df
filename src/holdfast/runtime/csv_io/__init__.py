"""Import and export of tables as CSV."""
