"""PAGW as in production: every store is a service, each named by a setting."""
