"""The port of the tables store: the same operations give the same results and errors, whichever engine runs them."""
