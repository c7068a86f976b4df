"""Output of commands: tables, JSON, amounts of money and generated files."""
