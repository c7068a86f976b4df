"""Entities: attributes, keys, key templates, conditions, and the reads and writes that they build."""
