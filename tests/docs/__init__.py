"""Tests of the documentation: code blocks run, links lead somewhere, commands and settings are complete."""
