"""The contract of the tables store: the same operations give the same results and errors on every engine."""
