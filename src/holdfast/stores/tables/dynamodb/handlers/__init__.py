"""Handlers: each turns an operation into requests to the service, and the responses into its result."""
