"""Checks of the types and values of an operation, made by every engine before it runs the operation."""
