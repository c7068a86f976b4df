"""Telemetry: usage of operations, counters, latencies and Prometheus metrics."""
