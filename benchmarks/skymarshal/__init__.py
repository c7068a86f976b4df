"""Benchmarks of SkyMarshal: an index next to a scan, and one disruption at scale."""
