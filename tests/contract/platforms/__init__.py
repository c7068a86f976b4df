"""Contract tests of what works on each operating system."""
