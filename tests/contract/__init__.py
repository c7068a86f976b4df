"""One suite per port, run over every engine behind it."""
