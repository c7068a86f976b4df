"""Sandboxes of external services, sample data and stories, one package per system.

Each `demo.py` declares a DEMO, which hosts find by the entry point group `holdfast.demos`.
"""
