"""The laws of numbers and values."""
