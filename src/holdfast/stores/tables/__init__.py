"""Where tables live: one port, and the engines behind it."""
