"""The contract of the objects store: the same operations give the same results and errors on every engine."""
