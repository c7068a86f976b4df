"""Each operation as requests to the service, and its answers as the operation's result."""
