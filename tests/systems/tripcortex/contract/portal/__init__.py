"""The portal's circuit breaker on every tables engine."""
