"""The stories that `holdfast demo` runs: one for the tables engine and one per system."""
