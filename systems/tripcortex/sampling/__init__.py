"""What the sample is made of: `policies` that serve, `trips` that are flown and judged, `trails` of audits, `bookings` of them all."""
