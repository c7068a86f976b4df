"""The monthly cost of a system: price lists, units, requests, and comparison with stated costs."""
