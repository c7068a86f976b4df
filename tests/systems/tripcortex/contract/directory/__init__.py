"""Contract tests of the portal's circuit breaker on every tables engine."""
