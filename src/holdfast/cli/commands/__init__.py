"""The commands, one module each. What only one command needs, it imports when it runs."""
