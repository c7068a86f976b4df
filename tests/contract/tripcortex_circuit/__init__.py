"""The portal's circuit on every engine of the tables."""
