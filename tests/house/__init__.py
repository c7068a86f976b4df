"""Tests of the house itself: its layers, its files, its locks."""
