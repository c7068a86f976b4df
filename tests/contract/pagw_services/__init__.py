"""PAGW as it runs in production: every store a service, each named by a setting."""
