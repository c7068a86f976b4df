"""The sample data and the demo story."""
