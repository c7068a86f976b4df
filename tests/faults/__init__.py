"""Fault tests: killed processes, failing disks, lost power and malformed input."""
