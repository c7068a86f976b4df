"""The data of Trip Cortex: entities, access patterns, messages to employees, and the load profile."""
