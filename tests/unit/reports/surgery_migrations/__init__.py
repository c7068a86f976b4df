"""The tables of the surgery."""
