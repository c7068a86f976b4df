"""The workers: the flow of a booking and its steps, trip requests, policy ingestion, and the message
sender.
"""
