"""PAGW."""
