"""The lowest layer: errors, limits, the clock, random numbers, logging, installed systems."""
