"""Sample data and the demo story."""
