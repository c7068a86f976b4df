"""The design check and its rules."""
