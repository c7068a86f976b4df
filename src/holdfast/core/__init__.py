"""The lowest layer: errors, limits, the clock, random numbers, correlation ids, logging."""
