"""The assessment of one disruption, and the decision on it."""
