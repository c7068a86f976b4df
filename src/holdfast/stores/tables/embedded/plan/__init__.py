"""Planning of the embedded engine: pure decisions about changes, spans and capacity, without a store."""
