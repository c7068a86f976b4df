"""The port of the objects store: the same operations give the same results and errors, whichever engine runs them."""
