"""Operators' functions: monitoring, replay, legal holds, registry, retention, erasure, annual report."""
