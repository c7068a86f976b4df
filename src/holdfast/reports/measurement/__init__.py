"""Measurement of patterns: run them with their examples and record units, items and time."""
