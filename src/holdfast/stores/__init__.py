"""Where data lives: one room per kind of store, each with its port and its engines."""
