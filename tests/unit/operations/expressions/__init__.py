"""The expression language: parsing, evaluation, updates and projections."""
