"""The gateway as in production: every store is a service, chosen by a setting."""
