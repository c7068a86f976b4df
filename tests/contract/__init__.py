"""Contract tests: one suite per port, run over every engine behind it (embedded, a local server, moto)."""
