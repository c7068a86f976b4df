"""Markdown documentation of a system, with Mermaid diagrams."""
