"""The base of everything: errors, limits, the clock, random numbers, correlation ids, logging."""
