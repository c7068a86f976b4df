"""The data of Trip Cortex: entities, access patterns, the queue of messages to employees, and the load
profile.
"""
