"""The workers: a booking's flow and steps, trip requests, policy ingestion, and the message sender."""
