"""Compare the cost of two checkouts of the source tree: what a change costs in processor time."""
