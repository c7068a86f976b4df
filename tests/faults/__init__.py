"""Faults on purpose: killed processes, failing disks, lost power."""
