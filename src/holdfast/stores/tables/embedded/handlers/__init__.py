"""The handlers of the embedded engine: each takes its operations through validate, plan and storage."""
