"""The event worker: context, actions, feature flags and erasure."""
