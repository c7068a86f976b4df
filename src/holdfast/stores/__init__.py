"""Stores: one package per kind of data, each with its port and its engines."""
