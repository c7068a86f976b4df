"""Background work of the embedded tables, in steps of a few milliseconds, so that no writer waits long."""
