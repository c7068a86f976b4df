"""Tests of the operation vocabulary: numbers, values and expressions."""
