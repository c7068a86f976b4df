"""Benchmarks: each figure is compared with its floor, measured in the same run on the same machine.

A time says little on a noisy machine. A ratio to the floor (raw SQLite or psycopg, a bare app on the same
server) says what Holdfast adds. `holdfast bench` runs them; docs/internals/benchmarks.md has the figures of a
run.

  report.py     the table for a person, the JSON for a program
  harness/      rounds and ratios, an HTTP client, child processes
  stores/       tables, the wire protocol and a FIFO queue, next to raw SQLite
  richpanel/    webhooks, events, and events among 1,000,000 stored ones
  skymarshal/   an index next to a scan, and one disruption at a hundred times the data
  pagw/         SQL patterns, intake, pipeline, and requests among 200,000 tracked ones
  console/      pages of the data browser among 1,000,000 items
  tripcortex/   similarity search, and ten years of bookings
"""
