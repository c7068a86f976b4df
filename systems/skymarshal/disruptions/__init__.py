"""The assessment of one flight disruption, which only reads, and the decision on it, which writes."""
