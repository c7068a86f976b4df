"""The harness of the benchmarks: rounds and ratios, an HTTP client, child processes."""
