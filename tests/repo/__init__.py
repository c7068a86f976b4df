"""Tests of the repository itself: files, layers, dependencies, requirements and the frozen outer surface."""
