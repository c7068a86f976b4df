"""The sample data: `loader` writes it; `policies`, `trips`, `audit_trails` and `bookings` generate it."""
