"""Sample data: synthetic PAS bundles and their loader."""
