"""Request checks that every tables engine makes before it runs an operation: field types and values."""
