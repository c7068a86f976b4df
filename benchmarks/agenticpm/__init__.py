"""Benchmarks of AgenticPM: the review of projects against labels."""
