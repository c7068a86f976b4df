"""Tests of the repository itself: the outer surface that others rely on."""
