"""The event worker with its context, actions and feature flags, and the erasure of a person's data."""
