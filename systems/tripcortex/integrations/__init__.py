"""Clients of external services: the travel portal, language models and document services."""
